package activities_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

const talkFile = "talk/c1.jsonl"

// talks is an agent that keeps its conversation in HOME: it adds a line, leaves a file and
// something that is no part of the conversation, and ends as said.
func (d *desk) talks(line string, end error) func(context.Context, session.Job) (session.Outcome, error) {
	d.agents.conversation = spec.InDirectory
	return func(ctx context.Context, job session.Job) (session.Outcome, error) {
		if !job.Continues {
			d.agents.note = session.Conversation{Preset: "p", ID: "c1"}
		}
		d.agents.continuable = true
		path := filepath.Join(job.Home, talkFile)
		require.NoError(d.t, os.MkdirAll(filepath.Dir(path), 0o700))
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		require.NoError(d.t, err)
		_, err = f.WriteString(line + "\n")
		require.NoError(d.t, errors.Join(err, f.Close(), os.WriteFile(filepath.Join(job.Home, "login"), []byte("x"), 0o600)))
		out, err := leave(line+".txt", line)(ctx, job)
		require.NoError(d.t, err)
		if errors.Is(end, context.Canceled) { // it works until it is stopped
			<-ctx.Done()
			end = context.Cause(ctx)
		}
		return out, end
	}
}

// heard is what an attempt finds: whether it continues a conversation, what was said in it, and
// the other files of HOME and the tree.
type heard struct {
	continues  bool
	said       string
	home, tree []string
}

// hears has the next attempt note what it finds, and then do as run does.
func (d *desk) hears(run func(context.Context, session.Job) (session.Outcome, error)) *heard {
	h := &heard{}
	d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
		said, _ := os.ReadFile(filepath.Join(job.Home, talkFile))
		*h = heard{job.Continues, strings.ReplaceAll(string(said), "\n", " "), nil, here(d.t, job)}
		entries, err := os.ReadDir(job.Home)
		require.NoError(d.t, err)
		for _, e := range entries {
			h.home = append(h.home, e.Name())
		}
		return run(ctx, job)
	}
	return h
}

// host is what a worker's host has: directories, and what the agent has noted there.
type host struct {
	workDirs activities.WorkDirs
	note     session.Conversation
	has      bool
}

// on moves the desk to another host, and returns the one that it was on.
func (d *desk) on(next host) host {
	was := host{d.workDirs, d.agents.note, d.agents.continuable}
	d.workDirs, d.agents.note, d.agents.continuable = next.workDirs, next.note, next.has
	return was
}

func newHost(t *testing.T) host {
	return host{workDirs: workdir.New(workdir.Options{Root: t.TempDir()})}
}

var errCheck = failures.Failf(failures.TestFailure, "no")

// TestConversationContinuesOnAnotherHost: whichever way an attempt ends after which a
// conversation continues, another host has it, with the files that it is about.
func TestConversationContinuesOnAnotherHost(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"a failed check":     errCheck,
		"a failing provider": failures.Failf(failures.APIError, "overloaded"),
		"a stopping worker":  context.Canceled,
		"a spent budget":     failures.Failf(failures.TokenBudget, "too much"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.patient(time.Hour, spec.OutageWait)
			d.holdSlot = time.Nanosecond
			stop := make(chan struct{})
			first := d.talks("one", end)
			d.agents.run = func(ctx context.Context, job session.Job) (session.Outcome, error) {
				if errors.Is(end, context.Canceled) {
					close(stop)
				}
				return first(ctx, job)
			}
			_, err := d.round(func(env *testsuite.TestActivityEnvironment) { env.SetWorkerStopChannel(stop) })
			require.Error(t, err)
			d.on(newHost(t))
			h := d.hears(d.talks("two", nil))
			in := d.roundInput()
			if name == "a spent budget" { // and its round with it: a person has answered
				in.Round, in.Ordered, in.Because = 1, 1, session.BecauseRetried
				d.earlier++
			}
			require.Eventually(t, func() bool {
				_, err = d.roundOf(in)
				return err == nil
			}, time.Minute, 50*time.Millisecond)
			require.Equal(t, &heard{true, "one ", []string{"talk"}, []string{"one.txt"}}, h)
		})
	}
}

// TestNewConversationEndsTheStoredOne: an attempt that begins anew, and is lost, begins anew
// elsewhere, too.
func TestNewConversationEndsTheStoredOne(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.agents.run = d.talks("one", failures.Failf(failures.Unknown, "no"))
	_, err := d.round()
	requireType(t, err, session.RecoverableError)
	require.NotEmpty(t, d.record().Conversation.Home)
	d.agents.run = d.talks("lost", errKilled)
	_, err = d.round()
	require.Error(t, err)
	d.on(newHost(t))
	h := d.hears(d.talks("two", nil))
	_, err = d.round()
	require.NoError(t, err)
	require.Equal(t, &heard{tree: []string{}}, h)
}

// TestConversationThatCannotBeStoredStaysOnItsHost, which is said once.
func TestConversationThatCannotBeStoredStaysOnItsHost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		why   string
		spoil func(d *desk, talk string) error
	}{
		"a secret": {"secret", func(d *desk, talk string) error {
			d.agents.secrets = secrets.New([]secrets.Secret{{Name: "KEY", Value: "sk-very-secret-value"}})
			return os.WriteFile(filepath.Join(talk, "env"), []byte("KEY=sk-very-secret-value"), 0o600)
		}},
		"a link that leads out": {"absolute", func(_ *desk, talk string) error {
			_ = os.Symlink("/etc/passwd", filepath.Join(talk, "out"))
			return nil
		}},
		"more than the limits": {"bytes", func(_ *desk, talk string) error {
			return os.Truncate(filepath.Join(talk, filepath.Base(talkFile)), cas.DefaultFileBytes+1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			with := func(line string) func(context.Context, session.Job) (session.Outcome, error) {
				talk := d.talks(line, errCheck)
				return func(ctx context.Context, job session.Job) (session.Outcome, error) {
					out, err := talk(ctx, job)
					return out, errors.Join(c.spoil(d, filepath.Join(job.Home, "talk")), err)
				}
			}
			var lines bytes.Buffer
			d.logger = slog.New(slog.NewTextHandler(&lines, nil))
			d.agents.run = with("one")
			_, err := d.round()
			requireType(t, err, session.RecoverableError)
			h := d.hears(with("two"))
			_, err = d.round()
			requireType(t, err, session.RecoverableError)
			require.True(t, h.continues)
			require.Equal(t, 1, strings.Count(lines.String(), "continues on this host only"), lines.String())
			require.Contains(t, lines.String(), c.why)
			require.Empty(t, d.record().Conversation.Home)

			d.on(newHost(t))
			h = d.hears(func(context.Context, session.Job) (session.Outcome, error) { return session.Outcome{}, errKilled })
			_, err = d.round()
			require.Error(t, err)
			require.False(t, h.continues)
			require.Equal(t, []string{"one.txt", "two.txt"}, h.tree)
		})
	}
}
