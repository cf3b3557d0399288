package cli_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

func TestAgentsShowsWhatWorkersOffer(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.set("HOOK", "http://127.0.0.1:9/hook")
	script := d.file("work.sh", "echo x > code.txt\n")
	isolation, networks := "no rooms", []string{"-", "-"}
	if permitsRooms() {
		isolation, networks = "rooms", []string{`git\.test, \*\.npm\.test`, "host"}
	}
	file := d.file("agents.yaml", `
version: 1
agents:
  coder: {kind: command, argv: [sh, `+script+`], concurrency: 2, fallback: spare, network: [git.test, "*.npm.test"]}
  spare: {kind: command, argv: [sh, `+script+`], breaker: {name: shared}}
checks:
  has-code: {argv: [test, -f, code.txt]}
webhook: {url_env: HOOK}
`)
	require.Equal(t, 2, d.run("agents").code, "there is no store yet")
	d.serves(file)
	var o struct{ Workers []struct{ Identity string } }
	d.json(&o, "agents")
	us := `"pollers": ["` + o.Workers[0].Identity + `"]}`
	d.prints(fmt.Sprintf(`{"temporal": true, "workers": [{"host": "desk", "pid": %d, "webhook": true, "checks": ["has-code"],
		"agents": [{"fallback": "spare", "concurrency": 2}, {"breaker": "shared", "breaker_state": "closed"}]}], "queues": [
		{"for": "sessions", %[2]s, {"for": "agent coder", %[2]s, {"for": "agent spare", %[2]s, {"for": "webhook", %[2]s]}`,
		os.Getpid(), us), "agents")
	d.must(0, "breaker", "trip", "shared", "--why", "testing")
	table := d.must(0, "agents", "--team", d.file("one.yaml", oneTeam))
	require.Regexp(t, `spare +desk-\d+ +command +- +4 +shared +open`, table)
	require.Contains(t, table, "nothing is missing for team solo")
	require.Regexp(t, ` `+isolation+`.* [0-9.]+ [MGT]iB +has-code +webhook\n`, table)
	require.Regexp(t, `coder .* `+networks[0]+`\n`, table)
	require.Regexp(t, `spare .* `+networks[1]+`\n`, table)

	lacking := d.must(1, "agents", "--team", d.file("two.yaml", strings.Replace(planTeam, "go-test", "has-code", 1)))
	require.Contains(t, lacking, `no worker has agent "writer" of persona analyst, persona tester`)
	require.Contains(t, lacking, "no worker can create tickets")
}

func TestAgentsMissesWorkersAndPollers(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	w := d.withWorker(map[string]string{"coder": "true\n"})
	s, err := store.Open(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	offers, err := s.State.Offers(t.Context())
	require.NoError(t, err)
	require.Len(t, offers, 1)
	w.interrupt()
	w.wait()
	d.printsAt(1, `{"workers": [], "store": "`+s.ID()+`", "missing": [{}]}`, "agents")
	require.Contains(t, d.must(1, "agents"), "no worker serves this store")

	// A worker that is connected to another Temporal: it lives, and asks elsewhere.
	elsewhere := newDesk(t).withServer()
	d.environ = elsewhere.environ
	d.set("MAESTRO_STATE_DIR", d.state)
	offers[0].RenewedAt = time.Now()
	offers[0].Host, offers[0].Disk = "faraway", spec.Disk{FreeBytes: 5 << 20, Full: true}
	require.NoError(t, s.State.PutOffer(t.Context(), offers[0]))
	require.Contains(t, d.must(1, "agents"), "for agent coder")
	require.Regexp(t, "faraway .* [0-9.]+ MiB, full ", d.must(1, "agents"))
	require.Regexp(t, "faraway is full: [0-9.]+ MiB free", d.must(1, "doctor"))
}

func TestBreakerIsTrippedShownAndReset(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"coder": "echo x > code.txt"})
	d.prints(`{"breakers": [{"name": "coder", "state": "closed", "agents": ["coder"]}]}`, "breaker", "list")
	d.ends(2, "--why", "breaker", "trip", "coder")
	d.ends(2, `did you mean "coder"?`, "breaker", "trip", "codre", "--why", "x")
	d.must(2, "breaker", "trip", "coder", "--why", "x", "--for", "-1h")

	out := d.must(0, "breaker", "trip", "coder", "--why", "the provider moves", "--for", "1h")
	require.Contains(t, out, "the provider moves")
	var shown session.BreakerStatus
	d.json(&shown, "breaker", "show", "coder")
	require.Equal(t, session.BreakerIsOpen, shown.State)
	require.WithinDuration(t, time.Now().Add(time.Hour), *shown.OpenUntil, time.Minute)
	require.Equal(t, int64(1), shown.Generation)
	require.Contains(t, d.must(0, "breaker", "list"), "opened manually by")

	file := d.file("team.yaml", oneTeam)
	d.must(0, "run", file, "work", "--session", "s")
	d.becomes("s", in(session.WaitingForBreaker))
	text := d.must(0, "status", "s")
	require.Contains(t, text, "waiting_breaker")
	require.Contains(t, text, "`maestro breaker show coder`")
	require.Contains(t, text, "the provider moves")
	until(t, func() bool { return strings.Contains(d.must(0, "list"), "waiting_breaker") }, "the listing never said so")
	watching := d.begin("watch", "s")
	watching.shows("waiting since")

	// Neither Temporal nor a worker is needed.
	away := *d
	away.environ = append(away.environ[:len(away.environ):len(away.environ)], "TEMPORAL_ADDRESS=127.0.0.1:1")
	require.Contains(t, away.must(0, "breaker", "reset", "coder", "--why", "it has moved"), "closed")
	require.Equal(t, 0, watching.wait())
}
