package llm_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/llm"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/testkit/callstest"
	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

const (
	secret = "swordfish-0123456789"
	key    = "sk-test-key"
)

// today is the clock of the tests.
var today = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// kinds are the addresses of the APIs at a provider.
var kinds = map[string]func(url string) string{
	"anthropic": func(url string) string { return url },
	"openai":    func(url string) string { return url + "/v1" },
}

// bench is a directory with a model at work on it.
type bench struct {
	t     *testing.T
	dir   string
	agent *llm.Agent
	job   session.Job
	calls *callstest.Account

	mu   sync.Mutex
	said []string
	// log is the transcript of the last run.
	log bytes.Buffer
}

// newBench makes a bench whose model is at url. files are the input.
func newBench(t *testing.T, kind, url string, files map[string]string) *bench {
	t.Helper()
	b := &bench{t: t, calls: callstest.New(-1)}
	b.agent = &llm.Agent{
		Name: "writer", API: wire.API(kind), Model: "m", BaseURL: kinds[kind](url), Key: key, Transport: http.DefaultTransport,
		MaxTurns: 50, MaxOutputTokens: 8192, ContextTokens: 200_000, Timeout: time.Minute, IdleTimeout: time.Minute,
		Mask: func(s string) string { return strings.ReplaceAll(s, secret, "***") },
		Now:  func() time.Time { return today }, Log: &b.log, Scale: &wire.Scale{},
		Enter: func(context.Context, int64) (func(int64), error) { return func(int64) {}, nil },
	}
	b.job = session.Job{
		Agent: "writer", Calls: b.calls,
		Brief: session.Brief{
			Session: "s", Phase: "design", Persona: "architect", Role: "Solution architect", Instructions: "Be brief.",
			Requirement: "Write the design.", Decisions: map[string]string{"language": "Go"}, Round: 1, Attempt: 1,
		},
		Progress: func(line string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.said = append(b.said, line)
		},
	}
	for name := range files {
		b.job.Brief.Inputs = append(b.job.Brief.Inputs, name)
	}
	b.fill(files)
	return b
}

// fill gives the bench a new directory with the input's files.
func (b *bench) fill(files map[string]string) {
	b.t.Helper()
	b.dir = b.t.TempDir()
	b.job.Tree = b.dir
	castest.WriteTree(b.t, b.dir, files)
}

// run does an attempt. Its outcome has the transcript.
func (b *bench) run() (session.Outcome, error) {
	b.calls.Restart()
	b.log.Reset()
	out, err := b.agent.Run(b.t.Context(), b.job)
	out.Log = bytes.Clone(b.log.Bytes())
	return out, err
}

// done is the outcome of a run that succeeds.
func (b *bench) done() session.Outcome {
	b.t.Helper()
	out, err := b.run()
	require.NoError(b.t, err, "%s", out.Log)
	return out
}

// files is what the directory holds: path to content.
func (b *bench) files() map[string]string { return castest.ReadTree(b.t, b.dir) }

// each runs a test against both providers.
func each(t *testing.T, script providertest.Script, files map[string]string,
	test func(t *testing.T, b *bench, s *providertest.Server),
) {
	t.Helper()
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := providertest.New(t, script)
			test(t, newBench(t, kind, server.URL(), files), server)
		})
	}
}

// plays is a script whose replies follow one another by the turn of their
// conversation; the last one is repeated.
func plays(replies ...providertest.Reply) providertest.Script {
	return func(r providertest.Request) providertest.Reply {
		return replies[min(r.Turn(), len(replies))-1]
	}
}

type args = map[string]any

func use(name string, a args) providertest.Reply { return providertest.Use(providertest.Tool(name, a)) }

func finish() providertest.Reply { return use("finish", args{"summary": "all done"}) }

func failed(t *testing.T, err error) *failures.Failure {
	t.Helper()
	var f *failures.Failure
	require.ErrorAs(t, err, &f)
	return f
}

// try is a Job.Try that fails until the file ok is there.
func (b *bench) try(_ context.Context, check string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(b.dir, "ok")); err != nil {
		return []byte("FAIL: " + check + " wants the file ok"), failures.Failf(failures.TestFailure, "check %s failed: exit status 1",
			check)
	}
	return []byte("PASS"), nil
}

var errStore = errors.New("the store is full")

// booked is what the calls have cost.
func (b *bench) booked() cost.Usage {
	settled, _, _ := b.calls.Sum()
	return settled
}
