package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// TestAWorkerWaitsForTemporal: it tries again until Temporal answers, says so once, and
// is alive and not ready meanwhile. A timeout, a stop and a refusal end it.
func TestAWorkerWaitsForTemporal(t *testing.T) {
	t.Parallel()
	logs := &proctest.Output{}
	logger := slog.New(slog.NewTextHandler(logs, nil))
	away := &temporalutil.UnreachableError{Address: "here:1", Err: errors.New("refused")}

	h, tries := newHealth("", "", time.Now), 0
	conn, err := connect(t.Context(), 0, h, logger, func() (*temporalutil.Connection, error) {
		if tries++; tries < 3 {
			return nil, away
		}
		return &temporalutil.Connection{Address: "here:1"}, nil
	})
	require.NoError(t, err)
	require.NotNil(t, conn)
	require.Equal(t, 1, strings.Count(logs.String(), "Temporal cannot be reached"), logs.String())
	require.Equal(t, "ok", h.report().Status)
	r := h.readiness(t.Context())
	require.Equal(t, []string{"starting", "temporal"}, []string{r.Status, r.Failed[0].Check})

	unreachable := func() (*temporalutil.Connection, error) { return nil, away }
	_, err = connect(t.Context(), time.Millisecond, h, logger, unreachable)
	require.Equal(t, exitUnreachable, exitCode(err))

	ctx, stop := context.WithCancel(t.Context())
	conn, err = connect(ctx, 0, h, logger, func() (*temporalutil.Connection, error) {
		stop()
		return nil, away
	})
	require.NoError(t, err)
	require.Nil(t, conn)

	refused := &temporalutil.RefusedError{Address: "here:1", Err: errors.New("no")}
	_, err = connect(t.Context(), 0, h, logger, func() (*temporalutil.Connection, error) { return nil, refused })
	require.Equal(t, exitUnreachable, exitCode(err))
}

// describer is a Temporal that answers everything but who polls some of its queues.
type describer struct {
	client.Client
	silent  string
	pollers []*taskqueuepb.PollerInfo
}

func (d describer) DescribeTaskQueue(_ context.Context, queue string,
	_ enumspb.TaskQueueType,
) (*workflowservice.DescribeTaskQueueResponse, error) {
	if queue == d.silent {
		return nil, errors.New("not enough hosts")
	}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: d.pollers}, nil
}

// TestReadinessMeansDelivery: a worker is not ready while Temporal answers and delivers nothing.
func TestReadinessMeansDelivery(t *testing.T) {
	t.Parallel()
	now := time.Unix(2000, 0)
	st, err := store.Create(filepath.Join(t.TempDir(), "state"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	works := agent.Definition{Kind: agent.KindCommand, Argv: []string{"true"}}
	set, err := agent.New(agent.Config{
		Version: 1, Isolation: agent.IsolationNone,
		Agents: map[string]agent.Definition{"coder": works, "writer": works},
	},
		agent.Options{Getenv: os.Getenv, Now: time.Now, Executable: os.Args[0]})
	require.NoError(t, err)
	sessions, coders := spec.WorkflowQueue(st.ID()), spec.AgentQueue(st.ID(), "coder")
	poll := func(identity string, ago time.Duration) []*taskqueuepb.PollerInfo {
		return []*taskqueuepb.PollerInfo{{Identity: identity, LastAccessTime: timestamppb.New(now.Add(-ago))}}
	}
	for name, c := range map[string]struct {
		temporal describer
		want     string
	}{
		"delivers":         {describer{pollers: poll("me", time.Minute)}, ""},
		"polls of another": {describer{pollers: poll("you", 0)}, "no poll of this worker for queue " + sessions},
		"an old poll":      {describer{pollers: poll("me", time.Hour)}, "no poll of this worker"},
		"the sessions' queue": {describer{pollers: poll("me", 0), silent: sessions}, "does not say who polls queue " + sessions +
			", so it may deliver no work: not enough hosts"},
		"the queue of an agent": {describer{pollers: poll("me", 0), silent: coders}, "does not say who polls queue " + coders},
	} {
		w := &Worker{store: st, identity: "me", Setup: Setup{
			Connection: &temporalutil.Connection{Client: c.temporal}, Clock: func() time.Time { return now },
		}}
		w.plan.Store(&plan{set: set})
		if err := w.delivered(t.Context()); c.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.want, name)
		}
	}
}

// TestAWorkerWhosePollsAreRefusedEnds has a queue given up, which the SDK does after
// two minutes of refusals.
func TestAWorkerWhosePollsAreRefusedEnds(t *testing.T) {
	t.Parallel()
	conn, err := temporalutil.DialAddress(t.Context(), temporaltest.Start(t), "default", nil)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	state := filepath.Join(t.TempDir(), "state")
	w, err := Setup{
		Config: agent.Config{
			Version: 1,
			Agents:  map[string]agent.Definition{"coder": {Kind: agent.KindCommand, Argv: []string{"true"}}},
		},
		StateDir: state, Connection: conn, Getenv: os.Getenv, Host: "test", PID: os.Getpid(), Clock: time.Now,
		Logger: slog.New(slog.DiscardHandler),
	}.Build()
	require.NoError(t, err)
	gone := errors.New("the namespace is gone")
	w.pollsRefused("coder", gone)
	w.pollsRefused("reviewer", gone) // which nobody waits for
	err = w.Run(t.Context())
	require.ErrorIs(t, err, ErrServing)
	require.ErrorIs(t, err, gone)
	require.Equal(t, exitFailed, exitCode(err))
	require.EqualError(t, err, "worker: queue coder is no longer polled: the namespace is gone")
	st, err := store.Open(state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	offers, err := st.State.Offers(t.Context())
	require.NoError(t, err)
	require.Empty(t, offers, "it offers what it does not serve")
}

// TestSecretsStayMaskedWhenTheFileNamesThemNoMore: what has begun with them continues.
func TestSecretsStayMaskedWhenTheFileNamesThemNoMore(t *testing.T) {
	t.Parallel()
	agents := func(secrets ...string) *agent.Set {
		set, err := agent.New(agent.Config{
			Version: 1, Secrets: secrets, Agents: map[string]agent.Definition{"coder": {Kind: agent.KindCommand, Argv: []string{"true"}}},
		}, agent.Options{
			Getenv: func(name string) string {
				return map[string]string{"ONE": "the-first-secret", "TWO": "the-second-secret"}[name]
			},
			Now: time.Now, Executable: os.Args[0],
		})
		require.NoError(t, err)
		return set
	}
	var w Worker
	for _, names := range [][]string{{"ONE"}, {"TWO"}, {}, {}, {"ONE"}, {"TWO"}} {
		w.mask(agents(names...).Secrets().Secrets()...)
	}
	require.Equal(t, "*** and *** and more", w.Mask("the-first-secret and the-second-secret and more"))
	require.Len(t, w.secrets.Load().Secrets(), 2)
}

// TestARenewedCredentialIsMasked: a delivery uses the credential as it is now, so that texts may have it from now on.
func TestARenewedCredentialIsMasked(t *testing.T) {
	t.Parallel()
	token := "the-first-token"
	set, err := agent.New(agent.Config{Version: 1, Agents: map[string]agent.Definition{
		"github": {Kind: agent.KindDelivery, TokenEnv: "TOKEN"},
	}}, agent.Options{Getenv: func(string) string { return token }, Now: time.Now, Executable: os.Args[0]})
	require.NoError(t, err)
	w := &Worker{Setup: Setup{Clock: time.Now}}
	w.mask(set.Secrets().Secrets()...)
	hosts := &codeHosts{worker: w, set: set}
	before, err := hosts.host("github")
	require.NoError(t, err)
	token = "the-second-token"
	after, err := hosts.host("github")
	require.NoError(t, err)
	require.NotSame(t, before, after)
	require.Equal(t, "*** and ***", w.Mask("the-first-token and the-second-token"))
}

func TestASeatIsTheSameWhateverBuildHoldsIt(t *testing.T) {
	t.Parallel()
	a := &workerSlot{name: "box-0"}
	require.Equal(t, "maestro-st@box-0 v1.2.3+abc1234", identity("st", a, "v1.2.3+abc1234"))
	require.Equal(t, "maestro-st@box-0", identity("st", a, ""))
	require.True(t, sameSlot(identity("st", a, "v1"), identity("st", a, "v2")))
	require.True(t, sameSlot("maestro-st@box-0", identity("st", a, "v2")), "that of a build which did not say")
	require.False(t, sameSlot(identity("st", a, "v1"), identity("st", &workerSlot{name: "box-01"}, "v1")))
}
