package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/maestro-hive/maestro/internal/client"
	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// transit is a temporary store, for files that go to a server or come from it.
type transit struct {
	now   func() time.Time
	dir   string
	store *store.Store
}

// open makes the store.
func (t *transit) open() (_ *store.Store, err error) {
	if t.store != nil {
		return t.store, nil
	}
	if t.dir, err = os.MkdirTemp("", "maestro-transit-"); err != nil {
		return nil, failf("make a temporary directory for files: %w", err)
	}
	t.store, err = store.Create(t.dir, store.Options{Clock: t.now})
	return t.store, err
}

func (t *transit) close() {
	if t.dir != "" {
		_ = os.RemoveAll(t.dir) // remaining files do no harm
	}
}

// servedReviews are the reviews of a server. Files that they read are stored in transit.
type servedReviews struct {
	client.Reviews
	transit *transit
}

// Result reads a session's result, with the files that it has changed.
func (r servedReviews) Result(ctx context.Context, sessionID string) (control.Result, error) {
	return r.read(ctx, sessionID, control.BundleInput{})
}

// Selected reads a session's result, with files of its newest tree.
func (r servedReviews) Selected(ctx context.Context, sessionID string, paths []string) (control.Result, error) {
	return r.read(ctx, sessionID, control.BundleInput{Tree: true, Paths: paths})
}

func (r servedReviews) read(ctx context.Context, sessionID string, in control.BundleInput) (control.Result, error) {
	into, err := r.transit.open()
	if err != nil {
		return control.Result{}, err
	}
	return r.Reviews.Result(ctx, sessionID, in, into)
}

// servedStarts start sessions of a server. Their files are stored in transit first.
type servedStarts struct {
	client.Starts
	transit *transit
}

// Check does nothing: the server rejects an invalid session at the start.
func (servedStarts) Check(context.Context, control.NewSession) error { return nil }

// Files is the store that takes a session's files first.
func (s servedStarts) Files() (*store.Store, error) { return s.transit.open() }

// Send uploads files. The server has to store them unchanged: ignored files were left out before.
func (s servedStarts) Send(ctx context.Context, from *store.Store, team string, files spec.Digest) error {
	archive := func() (io.Reader, error) {
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(control.Pack(ctx, from.Content, files, w)) }() // the reader has the error
		return r, nil
	}
	stored, err := s.Upload(ctx, team, archive, []string{"**"})
	if err == nil && stored.Workspace != files {
		err = failf("the server stored other files than were sent; its version may be another: see `maestro version`")
	}
	return err
}

// localStarts start sessions of a store of this host.
type localStarts struct{ control.Starts }

// Files is the session's store.
func (s localStarts) Files() (*store.Store, error) { return s.Store, nil }

// Send does nothing: the store has the files.
func (localStarts) Send(context.Context, *store.Store, string, spec.Digest) error { return nil }
