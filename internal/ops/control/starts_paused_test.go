package control

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// TestAResumeApprovesNoPhase has phases that wait, one of which needs an approval by its team. Its
// request may be unknown here.
func TestAResumeApprovesNoPhase(t *testing.T) {
	t.Parallel()
	s, err := store.Create(filepath.Join(t.TempDir(), "store"), store.Options{Clock: time.Now})
	require.NoError(t, err)
	ctx := access.With(t.Context(), access.Local("ann"))
	team := spec.Team{
		Name: "web", Personas: map[string]spec.Persona{"ann": {Role: "Writer", Agent: "coder"}},
		Phases: []spec.Phase{
			{Name: "design", Personas: []string{"ann"}, Approve: spec.Approval{Count: 1}},
			{Name: "build", Personas: []string{"ann"}},
		},
	}
	data, err := json.Marshal(team)
	require.NoError(t, err)
	blob, err := s.Content.PutBlob(ctx, data)
	require.NoError(t, err)
	files, err := s.Content.PutManifest(ctx, cas.Manifest{})
	require.NoError(t, err)
	b := &Base{Store: s, Namespace: "default", Now: time.Now}
	_, err = s.ImportCheckpoints(ctx, b.key("one"), session.Execution{Status: session.NewStatus("one", team)}, []session.Checkpoint{{
		Run: 1, Team: session.Ref{Name: "web", Blob: blob}, Requirement: "Make it.", CurrentPhase: "design", Workspace: files,
		Tree:      files,
		Decisions: map[string]string{}, Artifacts: []session.Artifact{}, CreatedAt: time.Now(),
	}})
	require.NoError(t, err)
	waiting := session.NewStatus("one", team)
	for i := range waiting.Phases {
		waiting.Phases[i].Status = session.AwaitingApproval
	}
	for name, open := range map[string][]session.Request{
		"unknown": nil,
		"known":   {{Kind: session.ForApproval, Phase: "design"}, {Kind: session.ForApproval, Phase: "build"}},
	} {
		waiting.Help = open
		require.Equal(t, []string{"build"}, Starts{b}.pausedAfter(ctx, sessionstatus.Session{Status: waiting}), name)
	}
	require.Empty(t, Starts{&Base{Namespace: "default", Now: time.Now}}.pausedAfter(ctx, sessionstatus.Session{Status: waiting}),
		"without the store")
}
