package control_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/store"
)

// TestEachPersonKeepsViews has two people keep views of their own, as many as there may be.
func TestEachPersonKeepsViews(t *testing.T) {
	t.Parallel()
	s, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	views := control.Views{Base: &control.Base{Store: s, Now: time.Now}}
	viewer := access.Roles{"web": {access.RoleViewer}}
	ann := access.With(t.Context(), access.Actor{Name: "ann", Roles: viewer})
	bob := access.With(t.Context(), access.Actor{Name: "bob", Roles: viewer})
	require.NoError(t, views.Save(ann, control.SavedView{Name: " a week ", Query: "since=7d"}))
	require.NoError(t, views.Save(ann, control.SavedView{Name: "a week", Query: "since=7d&team=web"}))
	require.NoError(t, views.Save(bob, control.SavedView{Name: "mine"}))
	kept, err := views.List(ann)
	require.NoError(t, err)
	require.Equal(t, []control.SavedView{{Name: "a week", Query: "since=7d&team=web"}}, kept)
	var refused *control.Error
	for _, name := range []string{"", "a\u202eb", "a\nb", string(make([]byte, 61))} {
		require.ErrorAs(t, views.Save(ann, control.SavedView{Name: name}), &refused, "%q", name)
	}
	for i := range 19 {
		require.NoError(t, views.Save(ann, control.SavedView{Name: fmt.Sprint(i)}))
	}
	require.ErrorAs(t, views.Save(ann, control.SavedView{Name: "one more"}), &refused)
	require.NoError(t, views.Remove(ann, "a week"))
	kept, err = views.List(ann)
	require.NoError(t, err)
	require.Len(t, kept, 19)

	require.ErrorIs(t, views.Save(context.Background(), control.SavedView{Name: "nobody"}), access.ErrNotSignedIn)
	var denied *access.DeniedError
	require.ErrorAs(t, views.Save(access.With(t.Context(), access.Actor{Name: "ann", Roles: viewer, ReadOnly: true}), control.SavedView{Name: "x"}), &denied)
	files, err := filepath.Glob(filepath.Join(s.Dir(), "access", "views", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.NoError(t, os.WriteFile(files[0], []byte("{"), 0o600))
	require.NoError(t, os.WriteFile(files[1], []byte("{"), 0o600))
	require.NoError(t, views.Save(ann, control.SavedView{Name: "again"}), "a damaged one is replaced")
}
