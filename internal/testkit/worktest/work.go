// Package worktest stores what sessions have made: files, and checkpoints.
package worktest

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
	"github.com/maestro-hive/maestro/internal/store/cas/castest"
	"github.com/maestro-hive/maestro/internal/testkit/gittest"
)

// Files are those of a tree, by their paths; [gittest.Link] and [gittest.Executable] mark what is no ordinary file.
type Files = map[string]string

// Blob stores a text.
func Blob(t testing.TB, s *store.Store, text string) spec.Digest {
	t.Helper()
	digest, err := s.Content.PutBlob(t.Context(), []byte(text))
	require.NoError(t, err)
	return digest
}

// Tree stores files.
func Tree(t testing.TB, s *store.Store, files Files) spec.Digest {
	t.Helper()
	digest, _ := tree(t, s, files)
	return digest
}

func tree(t testing.TB, s *store.Store, files Files) (spec.Digest, cas.Manifest) {
	t.Helper()
	m := cas.Manifest{}
	for path, content := range files {
		if target, ok := strings.CutPrefix(content, gittest.Link("")); ok {
			m[path] = cas.Entry{Link: target}
			continue
		}
		content, executable := strings.CutPrefix(content, gittest.Executable(""))
		m[path] = cas.Entry{Executable: executable, SHA256: Blob(t, s, content), Size: int64(len(content))}
	}
	digest, err := s.Content.PutManifest(t.Context(), m)
	require.NoError(t, err)
	return digest, m
}

// Change stores the work of an assignment that makes one tree of another one.
func Change(t testing.TB, s *store.Store, of spec.AssignmentID, before, after Files) []session.CheckpointAssignment {
	t.Helper()
	input, was := tree(t, s, before)
	_, is := tree(t, s, after)
	delta, err := s.Content.PutDelta(t.Context(), castest.Diff(was, is))
	require.NoError(t, err)
	return []session.CheckpointAssignment{{
		AssignmentID: of, BasedWork: session.BasedWork{Input: input, Work: session.Work{Delta: delta}},
	}}
}

// Checkpoint is one after a phase of one persona that has made one tree of another one; c has what else it shall have.
func Checkpoint(t testing.TB, s *store.Store, team spec.Team, of spec.AssignmentID, before, after Files,
	c session.Checkpoint,
) session.Checkpoint {
	t.Helper()
	text, err := json.Marshal(team)
	require.NoError(t, err)
	c.Team = session.Ref{Name: team.Name, Blob: Blob(t, s, string(text))}
	c.Run, c.Requirement, c.CurrentPhase = 1, "Make it.", of.Phase
	c.Workspace, c.Tree, c.Decisions = Tree(t, s, before), Tree(t, s, after), map[string]string{}
	if c.Assignments == nil {
		c.Assignments = Change(t, s, of, before, after)
	}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = time.Now()
	}
	return c
}

// Put stores a checkpoint of a session as its newest one.
func Put(t testing.TB, s *store.Store, key session.Key, c session.Checkpoint) {
	t.Helper()
	row, err := s.StoreCheckpoint(t.Context(), key, c)
	require.NoError(t, err)
	require.NoError(t, s.State.PutCheckpoints(t.Context(), c.Team.Name, row))
}

// Tar is an archive of ordinary files.
func Tar(t testing.TB, files Files) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}
