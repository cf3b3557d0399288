package service_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/workflows"
)

// pairs is a team with a root, a pair side by side of which one may fail, and an end.
func pairs() spec.Team {
	persona := func(agent string) spec.Persona { return spec.Persona{Role: agent, Agent: agent, Instructions: "do"} }
	return spec.Team{
		Version: 1, Name: "t",
		Personas: map[string]spec.Persona{"good": persona("good"), "moody": persona("moody")},
		Phases: []spec.Phase{
			{Name: "root", Personas: []string{"good"}},
			{Name: "pair", Personas: []string{"good", "moody"}},
			{Name: "end", Personas: []string{"good"}},
		},
		Retry: spec.Retry{Attempts: 1, Initial: textfmt.Duration(10 * time.Millisecond), RoundInitial: textfmt.Duration(10 * time.Millisecond), Rounds: 1},
		Help:  spec.Help{Mode: spec.HelpFail},
	}
}

// TestResumedSession: the next run of a failed session restores finished
// phases and, in the phase that failed, the assignment that had finished.
func TestResumedSession(t *testing.T) {
	t.Parallel()
	mended := filepath.Join(t.TempDir(), "mended")
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{
		"good":  shell(`sed 's/.*"phase":"\([^"]*\)".*/\1/' > p; mv p "good-$(cat p)"; echo '{"usage":{"input_tokens":10}}' > $MAESTRO_RESULT`),
		"moody": shell(`echo x > moody; echo '{"usage":{"input_tokens":1}}' > $MAESTRO_RESULT; test -e ` + mended),
	}})
	tm := pairs()
	_, err := s.run("s", tm)
	require.ErrorContains(t, err, "pair/moody failed")
	require.Equal(t, int64(21), s.execution("s").Usage.InputTokens)
	tm.Personas["moody"] = spec.Persona{Role: "moody", Agent: "moody", Instructions: "do", Attempts: 2}
	require.NoError(t, os.WriteFile(mended, nil, 0o600))

	result, err := s.run("s", tm, func(in *workflows.SessionInput) {
		in.Base, in.Run = s.execution("s").Checkpoint, 2
	})
	require.NoError(t, err)
	e := s.execution("s")
	require.Equal(t, session.Completed, e.Status.Status)
	require.Equal(t, 2, e.Run)
	require.Equal(t, session.Restored, e.Phases[0].Status)
	require.Equal(t, session.Restored, e.Phases[1].Assignments[0].Status, "half of the pair had finished")
	require.Equal(t, 2, e.Phases[1].Assignments[1].Rounds)
	require.Equal(t, int64(32), e.Usage.InputTokens, "both runs are paid for, nothing twice")
	require.Equal(t, e.Usage, result.Usage)
	require.Equal(t, map[string]string{"good-root": "root\n", "good-pair": "pair\n", "moody": "x\n", "good-end": "end\n"}, s.tree("s"))
}

// TestParkedSession parks after two phases of three. One word comes as a signal
// before anybody may expect it, which changes nothing, one as an update.
func TestParkedSession(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"good": shell(`true`), "moody": shell(`true`)}})
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		done <- func() error {
			if err := s.awaitParked(ctx, "root"); err != nil {
				return err
			}
			if err := s.client.SignalWorkflow(ctx, "s", "", workflows.ApprovePhaseUpdate, workflows.ApprovePhase{Phase: "end"}); err != nil {
				return err
			}
			if err := s.client.SignalWorkflow(ctx, "s", "", workflows.ApprovePhaseUpdate, workflows.ApprovePhase{Phase: "root"}); err != nil {
				return err
			}
			if err := s.awaitParked(ctx, "end"); err != nil {
				return err
			}
			for _, phase := range []string{"root", "end"} {
				h, err := s.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
					WorkflowID: "s", UpdateName: workflows.ApprovePhaseUpdate, Args: []any{workflows.ApprovePhase{Phase: phase}}, WaitForStage: client.WorkflowUpdateStageCompleted,
				})
				if err == nil {
					err = h.Get(ctx, nil)
				}
				if refused := err != nil; refused != (phase == "root") {
					return err
				}
			}
			return nil
		}()
	}()
	_, err := s.run("s", pairs(), func(in *workflows.SessionInput) { in.Course.PauseAfter = []string{"root", "end"} })
	require.NoError(t, err)
	require.NoError(t, <-done)
	e := s.execution("s")
	require.Equal(t, session.Completed, e.Status.Status)
	for _, p := range e.Phases {
		require.Equal(t, session.Completed, p.Status, p.Name)
	}
}

// awaitParked waits until the session is parked after the phase.
func (s *stand) awaitParked(ctx context.Context, phase string) error {
	key := s.key("s")
	for ctx.Err() == nil {
		e, err := s.store.State.Execution(ctx, key)
		if err != nil {
			continue
		}
		for _, p := range e.Phases {
			if p.Name == phase && p.Status == session.AwaitingApproval && e.Status.Status == session.AwaitingApproval {
				return nil
			}
		}
	}
	return ctx.Err()
}

// TestSelectedPhases runs one phase of three, on supplied work.
func TestSelectedPhases(t *testing.T) {
	t.Parallel()
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{"good": shell(`cp given got`), "moody": shell(`exit 1`)}})
	files := s.manifest(map[string]string{"given": "by hand\n"})
	_, err := s.run("s", pairs(), func(in *workflows.SessionInput) {
		in.Course = session.Course{Only: []string{"end"}, Supplied: []session.SuppliedWork{{Phase: "pair", Files: files}}, Given: map[string]string{"db": "x"}}
	})
	require.NoError(t, err)
	e := s.execution("s")
	require.Equal(t, session.Pending, e.Phases[0].Status)
	require.Equal(t, session.Supplied, e.Phases[1].Status)
	require.Equal(t, session.Completed, e.Phases[2].Status)
	require.Equal(t, map[string]string{"db": "x"}, e.Decisions)
	require.Equal(t, map[string]string{"given": "by hand\n", "got": "by hand\n"}, s.tree("s"))
}

// manifest stores files and returns their manifest.
func (s *stand) manifest(files map[string]string) spec.Digest {
	s.t.Helper()
	dir := s.t.TempDir()
	for name, content := range files {
		require.NoError(s.t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	snap, err := s.store.Content.Snapshot(s.t.Context(), dir, cas.SnapshotOptions{})
	require.NoError(s.t, err)
	return snap.Manifest
}
