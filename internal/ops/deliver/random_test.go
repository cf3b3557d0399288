package deliver_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
)

var (
	seeds     = flag.Int("seeds", 3, "how many random deliveries to try with each host")
	firstSeed = flag.Uint64("seed", 1, "the first of them")
)

const shoutBranch = "maestro/shout-1"

// forge is a stand-in of a host, as people and CI use it.
type forge interface {
	newHost() delivery.Host
	comment(by, text string)
	line(by, text string)
	review(by string, approves bool, text string)
	check(state string) // success, failure or running
	end(how string)     // close, reopen or merge
	rename(to string)
	fail(f func(writes bool) trouble)
	// seen are the pull requests, and all that was written to them.
	seen() (count int, open, merged bool, texts []string)
	// texts are the title and the description of the first one.
	texts() (title, body string)
}

// trouble is what goes wrong with a request.
type trouble string

const (
	killBefore trouble = "the worker is killed before it"
	killAfter  trouble = "the worker is killed after it"
	lost       trouble = "its reply is lost"
	bad        trouble = "502"
	limited    trouble = "a secondary limit"
	forbidden  trouble = "403"
)

// random is a delivery with people, CI and a host that do what they like.
type random struct {
	*bench
	forge
	rng *rand.Rand
	log []string
	// said are the texts of persons who are heard, and how often they were sent back. mine are commits of persons.
	said  map[string]int
	mine  []string
	n     int
	calm  bool
	ended string
	// gone: the branch was deleted, and nobody has agreed to another one.
	gone bool

	mu     sync.Mutex
	kind   trouble
	left   int
	writes bool
	cancel func()
}

func (w *random) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *random) name(kind string) string {
	w.n++
	return fmt.Sprintf("%s-%d.", kind, w.n)
}

// plan arms what goes wrong in the next attempt.
func (w *random) plan(cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kind, w.cancel = "", cancel
	if !w.calm && w.rng.IntN(2) == 0 {
		all := []trouble{killBefore, killAfter, killBefore, killAfter, lost, bad, limited, forbidden}
		w.kind, w.writes = all[w.rng.IntN(len(all))], w.rng.IntN(4) > 0
		w.left = 1 + w.rng.IntN(map[bool]int{true: 3, false: 25}[w.writes])
	}
}

// goesWrong is what goes wrong with a request.
func (w *random) goesWrong(writes bool) trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kind == "" || w.writes && !writes {
		return ""
	}
	if w.left--; w.left != 0 {
		return ""
	}
	return w.kind
}

// works reports whether git succeeds in the repository.
func (w *random) works(args ...string) bool {
	return exec.Command("git", append([]string{"-C", w.git.Dir(shop)}, args...)...).Run() == nil
}

// people do one thing.
func (w *random) people() {
	count, open, _, _ := w.seen()
	branch := w.head() != ""
	say := func(kind string) string {
		text := w.name(kind)
		w.said[text] = 0
		return text
	}
	acts := map[string]func(){
		"time":   func() { w.passes(time.Duration(w.rng.IntN(200)) * time.Second) },
		"base":   func() { w.git.Commit(shop, "main", map[string]string{"README": w.name("base")}, "base") },
		"clash":  func() { w.git.Commit(shop, "main", map[string]string{"shout.go": w.name("base")}, "clash") },
		"rename": func() { w.rename(fmt.Sprintf("acme/shop-%d", w.n)); w.n++ },
	}
	if count > 0 {
		acts["comment"] = func() { w.comment("ben", "@maestro "+say("comment")) }
		acts["talk"] = func() { w.comment("ben", w.name("talk")) }
		acts["stranger"] = func() { w.comment("eve", "@maestro "+w.name("eve")) }
	}
	if open && branch {
		push := func(file string) func() {
			return func() {
				w.mine = append(w.mine, w.git.Commit(shop, shoutBranch, map[string]string{file: w.name("person")}, "mine"))
			}
		}
		acts["line"], acts["line2"] = func() { w.line("ben", say("line")) }, func() { w.line("ann", say("line")) }
		acts["changes"] = func() { w.review("ben", false, w.name("review")) }
		acts["approve"] = func() { w.review("ben", true, "") }
		acts["push"], acts["contradict"] = push("README"), push("shout.go")
		acts["force"] = func() {
			w.git.SetBranch(shop, shoutBranch, w.git.Branch(shop, "main"))
			w.mine = nil
			push("README")()
		}
		for _, state := range []string{"failure", "failure2", "success", "running"} {
			acts[state] = func() { w.check(strings.TrimSuffix(state, "2")) }
		}
		acts["close"] = func() { w.end("close") }
		acts["delete"] = func() {
			w.git.DeleteBranch(shop, shoutBranch)
			w.mine, w.gone = nil, w.kind == "" // a push whose reply was lost is made again
		}
		if w.works("merge-tree", "--write-tree", "main", shoutBranch) && w.rng.IntN(3) == 0 {
			acts["merge"] = func() { w.end("merge") }
		}
	}
	names := make([]string, 0, len(acts))
	for name := range acts {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[w.rng.IntN(len(names))]
	w.note("people: %s", name)
	acts[name]()
}

// attempts makes an attempt, and does what a session does then.
func (w *random) attempts() {
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	w.plan(cancel)
	order := w.order
	out, err := w.d.Run(ctx, session.Job{Agent: "host", Input: w.work, Delivery: &order})
	w.note("attempt %d: %s %v\n%s", order.Pass, w.kind, err, out.Log)
	if ctx.Err() != nil { // another worker has no cache
		host := w.newHost()
		w.d.Host = func(string) (delivery.Host, error) { return host, nil }
		return
	}
	f, failed := errors.AsType[*failures.Failure](err)
	switch {
	case err == nil && len(out.SendsBack) > 0:
		w.reworks(out.SendsBack)
	case err == nil:
		w.ended = out.Summary
	case !failed:
		require.NoError(w.t, err)
	case f.Category == failures.Pending, f.Category == failures.APIError, f.Category == failures.RateLimited:
		w.passes(max(f.RetryAfter.Std(), time.Second))
	default:
		require.Contains(w.t, []failures.Category{failures.NeedsPerson, failures.Auth, failures.InvalidRequest}, f.Category, f.Message)
		w.decides(f.Message)
	}
}

func (w *random) reworks(reasons []string) {
	all := strings.Join(reasons, "\n")
	for text := range w.said {
		w.said[text] += strings.Count(all, text)
	}
	require.NotContains(w.t, all, "eve-")
	shout := "package main // shout\n"
	if w.rng.IntN(4) > 0 {
		shout = "package main // " + w.name("work") + "\n"
	}
	w.order.Because = ""
	w.does(w.order.Pass+1, "did it", shout)
}

// decides is what a person does who was asked.
func (w *random) decides(question string) {
	if !w.calm && w.rng.IntN(8) == 0 {
		w.ended = "skipped"
		return
	}
	if _, open, merged, _ := w.seen(); !open && !merged && w.head() != "" && strings.Contains(question, "reopen") {
		w.end("reopen")
	}
	if strings.Contains(question, "still fail") {
		w.check("success")
	}
	w.gone = false
	w.order.Pass, w.order.Because = w.order.Pass+1, session.BecauseRetried
}

var answer = regexp.MustCompile(`<!-- maestro shout-1 answers (\S+) -->`)

// holds checks what always holds.
func (w *random) holds() {
	count, _, _, texts := w.seen()
	require.LessOrEqual(w.t, count, 1)
	answered := map[string]int{}
	for _, text := range texts {
		for _, m := range answer.FindAllStringSubmatch(text, -1) {
			answered[m[1]]++
			require.Equal(w.t, 1, answered[m[1]], "answers to %s", m[1])
		}
	}
	require.False(w.t, w.gone && w.head() != "", "the branch was pushed again without a word")
	for text, times := range w.said {
		require.LessOrEqual(w.t, times, 1, text)
	}
	for _, commit := range w.mine {
		if w.head() != "" {
			require.True(w.t, w.works("merge-base", "--is-ancestor", commit, shoutBranch), "a commit of a person is gone: %s", commit)
		}
	}
}

func (w *random) run(seed uint64) {
	defer func() {
		if w.t.Failed() {
			w.t.Logf("-seed %d -seeds 1:\n%s", seed, strings.Join(w.log, "\n"))
		}
	}()
	cut := faulttest.Fault{Half: true}
	failBy(w.git, map[trouble]faulttest.Fault{
		killBefore: {Status: http.StatusOK, Body: "{}", Half: true}, killAfter: cut, lost: cut, bad: {Status: http.StatusBadGateway},
		limited: {Status: http.StatusBadGateway}, forbidden: {Status: http.StatusForbidden},
	}, func(r faulttest.Request) trouble {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.Path, "/git-receive-pack") {
			return ""
		}
		kind := w.goesWrong(true)
		if kind == killBefore { // a killed worker hears nothing
			w.cancel()
		}
		return kind
	})
	w.fail(func(writes bool) trouble {
		kind := w.goesWrong(writes)
		if kind == killBefore || kind == killAfter {
			w.cancel()
		}
		return kind
	})
	host := w.newHost()
	w.d.Host = func(string) (delivery.Host, error) { return host, nil }
	for i := 0; i < 60 && w.ended == ""; i++ {
		_, _, before, _ := w.seen()
		if w.calm = i > 15; !w.calm {
			w.people()
		} else if _, open, _, _ := w.seen(); open && w.head() != "" {
			w.check("success")
			w.review("ben", true, "")
		}
		w.attempts()
		w.holds()
		if w.ended != "" && w.calm && !before {
			for text, times := range w.said {
				require.Equal(w.t, 1, times, text)
			}
		}
	}
	require.NotEmpty(w.t, w.ended, "it does not end")
	_, _, merged, _ := w.seen()
	require.Equal(w.t, merged, w.ended != "skipped", w.ended)
	row, err := w.store.State.Delivery(w.t.Context(), w.key, "ship")
	if w.ended != "skipped" {
		require.NoError(w.t, err)
		require.True(w.t, row.Work == string(w.work) || strings.Contains(w.ended, "without"), "work was left out without a word")
	}
}

// TestRandomDeliveries: whatever people, CI, the host and crashes do, each effect happens once, nobody's commit is lost, and
// there is an end. Try more with -args -seeds 300.
func TestRandomDeliveries(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(*bench) forge{"github": newGitHubForge, "gitlab": newGitLabForge} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					to := fixing(spec.MergeAuto)
					to.Repository = shop
					b := newWork(t, to)
					w := &random{bench: b, forge: serve(b), rng: rand.New(rand.NewPCG(seed, 36)), said: map[string]int{}}
					w.run(seed)
				})
			}
		})
	}
}
