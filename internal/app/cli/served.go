package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
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

// result reads a session's result, with the files that it has changed.
func (p *plane) result(ctx context.Context, sessionID string) (control.Result, error) {
	if p.base != nil {
		return control.Reviews{Base: p.base}.Result(ctx, sessionID)
	}
	return p.bundle(ctx, control.BundleInput{Session: sessionID})
}

// newest reads a session's result, with the files of its newest tree that paths select.
func (p *plane) newest(ctx context.Context, sessionID string, paths []string) (control.Result, error) {
	if p.base != nil {
		return control.Reviews{Base: p.base}.Newest(ctx, sessionID)
	}
	return p.bundle(ctx, control.BundleInput{Session: sessionID, Tree: true, Paths: paths})
}

func (p *plane) bundle(ctx context.Context, in control.BundleInput) (doc control.Result, err error) {
	into, err := p.transit.open()
	if err != nil {
		return doc, err
	}
	err = client.Download(ctx, p.server, httpapi.BundleSession, in, func(r io.Reader) error {
		doc, err = control.ReadBundle(ctx, r, into)
		return err
	})
	return doc, err
}

// checkStart rejects a session that cannot start, before its files are stored. A server rejects it at the start.
func (p *plane) checkStart(ctx context.Context, in control.NewSession) error {
	if p.base == nil {
		return nil
	}
	return control.Starts{Base: p.base}.Check(ctx, in)
}

// files is the store that takes a session's files first.
func (p *plane) files() (*store.Store, error) {
	if p.base != nil {
		return p.base.Store, nil
	}
	return p.transit.open()
}

// send uploads files to a server. It has to store them unchanged: ignored files were left out before.
func (p *plane) send(ctx context.Context, team string, files spec.Digest) error {
	if p.base != nil {
		return nil
	}
	archive := func() (io.Reader, error) {
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(control.Pack(ctx, p.transit.store.Content, files, w)) }() // the reader has the error
		return r, nil
	}
	stored, err := client.Upload(ctx, p.server, httpapi.UploadWorkspace, httpapi.UploadInput{Team: team, Include: []string{"**"}}, archive)
	if err == nil && stored.Workspace != files {
		err = failf("the server stored other files than were sent; its version may be another: see `maestro version`")
	}
	return err
}
