package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/platform/buildinfo"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/statedir"
	"github.com/maestro-hive/maestro/worker/telemetry"
)

// backend is where the operations of commands run: in this process, on Temporal and the store, or at a
// server.
type backend struct {
	// base is that of the operations of this process; nil with a server.
	base   *control.Base
	server *client.Client
	// transit has the files that go to the server or come from it.
	transit *transit
	// close ends connections.
	close func()
}

// place is where a command's operations run.
type place func(ctx context.Context) (*backend, error)

// opener opens what operations of this process work on. The returned function ends it.
type opener func(ctx context.Context) (*control.Base, func(), error)

// served is the server in a command's flags or the environment; otherwise what open opens.
func (c *connector) served(open opener) place {
	return func(ctx context.Context) (*backend, error) {
		at, err := c.client()
		if err != nil {
			return nil, err
		}
		if at == nil {
			return c.here(open)(ctx)
		}
		between := &transit{now: c.now}
		return &backend{server: at, transit: between, close: func() {
			between.close()
			at.Close()
		}}, nil
	}
}

// client returns a client of the server in flags or the environment; nil: no server is named, or
// flags name a Temporal or a store, which override the environment.
func (c *connector) client() (*client.Client, error) {
	t := c.target
	local := t.namesLocal()
	switch {
	case t.server.url != "" && local != "":
		return nil, usagef("--%s %s excludes --%s; leave one out", serverFlag, t.server.url, local)
	case t.server.url == "" && (t.server.tokenFile != "" || t.server.plainHTTP) && t.environ.get(serverVariable) == "":
		return nil, usagef("--token-file and --plain-http need --%s or %s", serverFlag, serverVariable)
	case t.server.url == "" && local != "":
		return nil, nil
	}
	at := cmp.Or(t.server.url, t.environ.get(serverVariable))
	if at == "" {
		return nil, nil
	}
	token := t.environ.get(tokenVariable)
	if t.server.tokenFile != "" {
		var err error
		if token, err = readSecret("token-file", t.server.tokenFile); err != nil {
			return nil, err
		}
	}
	made, err := client.New(client.Options{
		URL: at, Token: token, PlainHTTP: t.server.plainHTTP, Version: buildinfo.This().Version,
		Now: c.now,
	})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return made, nil
}

// here is what open opens, also if the environment names a server.
func (c *connector) here(open opener) place {
	return func(ctx context.Context) (*backend, error) {
		base, done, err := open(ctx)
		return &backend{base: base, close: done}, err
	}
}

// temporalBase connects to Temporal and then opens the store, as open does: a start makes no store in vain.
func (c *connector) temporalBase(open func() (*store.Store, error)) opener {
	return c.lookBase(open, "")
}

// lookBase is like temporalBase, for operations that change nothing: if Temporal cannot be reached and there is a store,
// a note with the consequence is printed. Without a consequence, or a store, it is an error.
func (c *connector) lookBase(open func() (*store.Store, error), so string) opener {
	return func(ctx context.Context) (*control.Base, func(), error) {
		conn, away := c.dial(ctx)
		if away != nil && (so == "" || !is[*temporalutil.UnreachableError](away)) {
			return nil, nil, away
		}
		s, err := open()
		switch {
		case away != nil && errors.Is(err, session.ErrNotFound):
			err = away
		case err == nil && away != nil:
			c.console.printErr("%s; %s", textfmt.FirstLine(away.Error()), so)
		}
		if err != nil {
			if conn != nil {
				conn.Close()
			}
			return nil, nil, err
		}
		return c.connectedBase(conn, s)
	}
}

// dial connects to the Temporal that flags, environment and profile name, else to the one
// that `maestro dev` runs for the store.
func (c *connector) dial(ctx context.Context) (*temporalutil.Connection, error) {
	c.temporal.StoreDir, c.temporal.Host = c.stateDirectory(), c.host
	options, err := c.temporal.ClientOptions(c.environ)
	if err != nil {
		return nil, err
	}
	c.connected.address, c.connected.namespace = options.HostPort, options.Namespace
	if c.telemetry == nil {
		c.telemetry, err = telemetry.Start(ctx, telemetry.Options{
			Service: "maestro", Version: buildinfo.This().Version, TracesOnly: true, Getenv: c.environ.get, Clock: c.now,
		})
		if err != nil {
			return nil, usagef("%w", err)
		}
	}
	return temporalutil.Dial(ctx, &c.temporal, c.environ, nil, c.telemetry.Instrument)
}

// createStore opens the store in the directory that find finds, making it if there is none yet.
func (c *connector) createStore(find func() (string, error)) (*store.Store, error) {
	dir, err := find()
	if err != nil {
		return nil, err
	}
	o, err := c.storeOptions()
	if err != nil {
		return nil, err
	}
	s, err := store.Create(dir, o)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return s, nil
}

// storeOptions are the options of the store that flags and environment name.
func (c *connector) storeOptions() (store.Options, error) {
	at, err := c.location.OrFrom(c.environ.get)
	if err != nil {
		return store.Options{}, usagef("%w", err)
	}
	return store.Options{Clock: c.now, Location: at}, nil
}

// storeDir is the state directory of this user; root continues as the directory's owner.
func (c *connector) storeDir() (string, error) {
	if c.ownersDir != "" {
		return c.ownersDir, nil
	}
	dir, _, err := statedir.Find(c.stateDir, c.environ.get, false)
	if err != nil {
		return "", usagef("%w", err)
	}
	owners, err := statedir.BecomeOwner(dir)
	if err != nil {
		return "", usagef("%w", err)
	}
	if owners != nil {
		c.ownersDir, c.environ = dir, slices.Concat(c.environ, owners)
	}
	return dir, nil
}

// workerDir is the state directory of a server and a worker on this machine. A missing one is created. A note is printed
// if it is not the default directory.
func (c *connector) workerDir() (string, error) {
	dir, note, err := statedir.ForWorker(c.stateDir, c.environ.get, true)
	if err != nil {
		return "", usagef("%w", err)
	}
	if note != "" {
		c.console.printErr("%s", note)
	}
	return dir, nil
}

// connectedBase is what operations work on. The connection may be nil. Changes are recorded in the store's audit log.
func (c *connector) connectedBase(conn *temporalutil.Connection, s *store.Store) (base *control.Base, done func(), err error) {
	base = &control.Base{Temporal: control.Connected(conn), Store: s, Audit: access.NewAudit(s.State, c.now), Now: c.now}
	done = func() {}
	if conn == nil {
		base.Namespace, err = c.namespace()
		return base, done, err
	}
	base.Namespace = conn.Namespace
	return base, conn.Close, nil
}

// checkStart rejects a session that cannot start, before its files are stored. A server rejects it at the start.
func (p *backend) checkStart(ctx context.Context, in control.NewSession) error {
	if p.base == nil {
		return nil
	}
	return control.Starts{Base: p.base}.Check(ctx, in)
}

// files is the store that takes a session's files first.
func (p *backend) files() (*store.Store, error) {
	if p.base != nil {
		return p.base.Store, nil
	}
	return p.transit.open()
}

// send uploads files to a server. It has to store them unchanged: ignored files were left out before.
func (p *backend) send(ctx context.Context, team string, files spec.Digest) error {
	if p.base != nil {
		return nil
	}
	archive := func() (io.Reader, error) {
		r, w := io.Pipe()
		go func() { _ = w.CloseWithError(control.Pack(ctx, p.transit.store.Content, files, w)) }() // the reader has the error
		return r, nil
	}
	stored, err := client.Upload(ctx, p.server, httpapi.UploadWorkspace, httpapi.UploadInput{Team: team, Include: []string{"**"}},
		archive)
	if err == nil && stored.Workspace != files {
		err = failf("the server stored other files than were sent; its version may be another: see `maestro version`")
	}
	return err
}

// invoke runs an operation in this process or at the server.
func invoke[I, O any](ctx context.Context, p *backend, o httpapi.Operation[I, O], in I) (O, error) {
	if p.base == nil {
		return client.Call(ctx, p.server, o, in)
	}
	return o.Do(ctx, p.base, in)
}

// open lists the open requests of a session.
func (p *backend) open(ctx context.Context, sessionID string) (control.OpenRequests, error) {
	return invoke(ctx, p, httpapi.ListSessionRequests, httpapi.OfSession{Session: sessionID})
}

// status is the status of a session.
func (p *backend) status(ctx context.Context, sessionID string) (sessionstatus.Session, error) {
	return invoke(ctx, p, httpapi.ReadSession, httpapi.OfSession{Session: sessionID})
}

// dashboard is the address of the page of a session; empty: no server serves the store.
func (p *backend) dashboard(ctx context.Context, sessionID string) string {
	if p.base == nil {
		return p.server.SessionPage(sessionID)
	}
	return control.Sessions{Base: p.base}.Dashboard(ctx, sessionID)
}

// ask runs one operation, and adds to its error what a person can do.
func ask[I, O any](ctx context.Context, c *connector, at place, o httpapi.Operation[I, O], in I) (doc O, err error) {
	p, err := at(ctx)
	if err != nil {
		return doc, err
	}
	defer p.close()
	doc, err = invoke(ctx, p, o, in)
	return doc, c.explain(err)
}

// report runs one operation, and prints its document, as JSON or with write for people.
func report[I, O any](ctx context.Context, a *app, at place, o httpapi.Operation[I, O], in I, write func(O)) error {
	doc, err := ask(ctx, a.connector, at, o, in)
	if err != nil {
		return err
	}
	return a.result(doc, func() { write(doc) })
}

// listing is a command that prints what one operation lists of the store.
func listing[O any](a *app, about cobra.Command, o httpapi.Operation[httpapi.None, O], write func(O)) *cobra.Command {
	about.RunE = func(cmd *cobra.Command, _ []string) error {
		return report(cmd.Context(), a, a.here(a.storeBase), o, httpapi.None{}, write)
	}
	return a.addStateFlags(&about)
}

// byName is a command that runs one operation in the store on what its argument names.
func byName[O any](a *app, about cobra.Command, o httpapi.Operation[httpapi.OfName, O], write func(O)) *cobra.Command {
	about.RunE = func(cmd *cobra.Command, args []string) error {
		return report(cmd.Context(), a, a.here(a.storeBase), o, httpapi.OfName{Name: args[0]}, write)
	}
	return a.addStateFlags(&about)
}

// temporal describes the Temporal of the operations.
func (p *backend) temporal() string {
	if p.base == nil || p.base.Temporal() == nil {
		return "Temporal"
	}
	return "Temporal at " + p.base.Temporal().Address
}

// maxSecret bounds a file with a secret, in bytes.
const maxSecret = 4 << 10

// readSecret reads the file of a flag.
func readSecret(flag, file string) (string, error) {
	data, err := bounded.ReadFile(file, maxSecret)
	if err != nil {
		return "", usagef("--%s: %w", flag, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// transit is a temporary store, for a plan, and for files that go to a server or come from it.
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
func (p *backend) result(ctx context.Context, sessionID string) (control.Result, error) {
	if p.base != nil {
		return control.Reviews{Base: p.base}.Result(ctx, sessionID)
	}
	return p.bundle(ctx, control.BundleInput{Session: sessionID})
}

// newest reads a session's result, with the files of its newest tree that paths select.
func (p *backend) newest(ctx context.Context, sessionID string, paths []string) (control.Result, error) {
	if p.base != nil {
		return control.Reviews{Base: p.base}.Newest(ctx, sessionID)
	}
	return p.bundle(ctx, control.BundleInput{Session: sessionID, Tree: true, Paths: paths})
}

func (p *backend) bundle(ctx context.Context, in control.BundleInput) (doc control.Result, err error) {
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
