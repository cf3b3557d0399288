package service_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// TestPausedRoundGoesOn: pausing a round in Temporal ends its agent, and going on
// neither counts a failed attempt nor a lost worker.
func TestPausedRoundGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begun, goOn := filepath.Join(dir, "begun"), filepath.Join(dir, "go on")
	s := newStand(t, agent.Config{Agents: map[string]agent.Definition{
		"a": shell(`touch '` + begun + `'; until test -e '` + goOn + `'; do sleep 0.05; done; echo done > a.txt`),
	}})
	exists := func(file string) bool {
		_, err := os.Stat(file)
		return err == nil
	}
	run := s.start("s", short(spec.Phase{Name: "one", Personas: []string{"dev"}}))
	require.Eventually(t, func() bool { return exists(begun) }, time.Minute, 20*time.Millisecond)
	record := func() session.RoundLog {
		stored, err := s.store.State.Record(t.Context(), state.Assignment{Key: s.key("s"), AssignmentID: spec.AssignmentID{Phase: "one", Persona: "dev"}})
		if err != nil || len(stored.Rounds) == 0 {
			return session.RoundLog{}
		}
		return stored.Rounds[0].RoundLog
	}
	require.True(t, record().Started)
	described, err := s.client.DescribeWorkflowExecution(t.Context(), "s", "")
	require.NoError(t, err)
	require.Len(t, described.GetPendingActivities(), 1)
	activity := described.GetPendingActivities()[0].GetActivityId()
	at := &commonpb.WorkflowExecution{WorkflowId: "s"}
	_, err = s.client.WorkflowService().PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{
		Namespace: s.namespace, Execution: at, Activity: &workflowservice.PauseActivityRequest_Id{Id: activity},
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !record().Started }, time.Minute, 20*time.Millisecond)
	require.NoError(t, os.WriteFile(goOn, nil, 0o600))
	_, err = s.client.WorkflowService().UnpauseActivity(t.Context(), &workflowservice.UnpauseActivityRequest{
		Namespace: s.namespace, Execution: at, Activity: &workflowservice.UnpauseActivityRequest_Id{Id: activity},
	})
	require.NoError(t, err)
	require.NoError(t, run.Get(t.Context(), nil))
	one := s.execution("s").Phases[0].Assignments[0]
	require.Equal(t, session.Completed, one.Status)
	require.Equal(t, 1, one.Attempts)
	require.Zero(t, one.LostWorkers)
}
