// Package serve runs the HTTP server of a store: the dashboard and the API, behind the guard that
// authenticates callers.
package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/app/doctor"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/faces/mcp"
	"github.com/maestro-hive/maestro/internal/faces/web"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/httpserver"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

const (
	// dialPause is between attempts to reach Temporal, and healthPause between looks at it.
	dialPause   = 2 * time.Second
	healthPause = 5 * time.Second
	// firstDial bounds how long a start waits for Temporal.
	firstDial = 3 * time.Second
	// healthPath answers who is not signed in.
	healthPath = "/healthz"
)

// Options are the settings of the server.
type Options struct {
	Store     *store.Store
	Namespace string
	// Dial connects to Temporal. It is called again until it succeeds; meanwhile only the
	// store is shown.
	Dial func(context.Context) (*temporalutil.Connection, error)
	// Listen is the address to listen on, host:port.
	Listen string
	// Hosts are other names by which the server may be called.
	Hosts []string
	// Proxies are networks whose X-Forwarded headers are trusted.
	Proxies []netip.Prefix
	// OIDC is the provider by which people sign in; nil: there is none.
	OIDC *access.OIDCOptions
	// Directories are those of this host that sessions may start from.
	Directories []control.Directory
	// ReadOnly: the server permits no changes.
	ReadOnly bool
	// User is who one-time links sign in, and Host this machine.
	User, Host string
	Version    string
	Now        func() time.Time
	Log        *slog.Logger
}

// Server is a running server.
type Server struct {
	o     Options
	http  *httpserver.Server
	guard *access.Guard
	conn  atomic.Pointer[temporalutil.Connection]
	work  sync.WaitGroup  // what runs beside requests
	life  context.Context //nolint:containedctx // of the requests: they end with the server
	end   context.CancelFunc
}

// Start listens, and returns when Temporal was reached, or after a few seconds without it.
func Start(ctx context.Context, o Options) (*Server, error) {
	listener, err := httpserver.Listen(ctx, o.Listen)
	if err != nil {
		return nil, err
	}
	listener.HandleAll(http.HandlerFunc(starting))
	s := &Server{o: o, http: listener}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	audit := access.NewAudit(o.Store.State, o.Now)
	base := &control.Base{
		Temporal: s.conn.Load, Store: o.Store, Namespace: o.Namespace, Audit: audit, Directories: o.Directories,
		Now: o.Now, Serves: true, Examiner: doctor.ExamineStore,
	}
	inbound := httpapi.NewInbound(control.NewReceiver(base), o.Log)
	s.guard = access.NewGuard(access.Options{
		DB: o.Store.State, Audit: audit, Now: o.Now, User: o.User, Addresses: []string{listener.Address()}, Hosts: o.Hosts,
		Proxies: o.Proxies, OIDC: o.OIDC, ReadOnly: o.ReadOnly, Public: []string{healthPath, "/assets/"},
		API:    []string{"/api/", mcp.Path},
		Signed: []string{control.HooksPath}, Signature: inbound.Identify, Body: newUploads(base).body,
	})
	if err := s.announce(); err != nil {
		s.Stop(ctx)
		return nil, fmt.Errorf("the store cannot be written: %w", err)
	}
	s.work.Go(s.stayAnnounced)
	listener.HandleAll(s.whileItRuns(s.guard.Wrap(s.routes(base, inbound))))
	dialled := make(chan struct{})
	s.work.Go(func() { s.stayConnected(sync.OnceFunc(func() { close(dialled) })) })
	select {
	case <-dialled:
	case <-time.After(firstDial):
	}
	return s, nil
}

// starting answers until the server can.
func starting(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "Maestro is starting", http.StatusServiceUnavailable)
}

// routes are the handlers behind the guard.
func (s *Server) routes(base *control.Base, inbound http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.Handle(httpapi.Prefix+"/", httpapi.New(base, s.o.Version))
	mux.Handle(control.HooksPath, inbound)
	mux.Handle(mcp.Path, mcp.Handler(base, s.o.Version, s.o.Log))
	mux.Handle("/", web.New(web.Options{Version: s.o.Version, Events: httpapi.Prefix + "/events", Now: s.o.Now, Log: s.o.Log},
		base))
	return mux
}

// whileItRuns ends requests, streams of events too, when the server stops.
func (s *Server) whileItRuns(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// stayConnected connects to Temporal again whenever it stops to answer. It signals the first try.
func (s *Server) stayConnected(tried func()) {
	defer func() {
		if conn := s.conn.Swap(nil); conn != nil {
			conn.Close()
		}
	}()
	var conn *temporalutil.Connection
	reached := true
	for {
		var err error
		if conn == nil {
			conn, err = s.o.Dial(s.life)
		} else {
			bounded, cancel := context.WithTimeout(s.life, healthPause)
			_, err = conn.CheckHealth(bounded, nil)
			cancel()
		}
		if err == nil {
			s.conn.Store(conn)
		} else {
			s.conn.Store(nil)
		}
		if (err == nil) != reached && s.life.Err() == nil {
			reached = err == nil
			s.o.Log.Info("Temporal", "reached", reached, "error", err)
		}
		tried()
		pause := healthPause
		if err != nil {
			pause = dialPause
		}
		if !retryafter.Wait(s.life, pause) {
			if conn != nil {
				s.conn.Store(conn)
			}
			return
		}
	}
}

// announce notes the server's address in the store, for links.
func (s *Server) announce() error {
	return access.Announce(s.life, s.o.Store.State, s.o.Host, s.guard.URL(), len(s.o.Hosts) > 0)
}

// stayAnnounced repeats the announcement until the server stops, and withdraws it then.
func (s *Server) stayAnnounced() {
	for retryafter.Wait(s.life, access.AnnouncePause) {
		if err := s.announce(); err != nil {
			s.o.Log.Warn("links may lead to another server", "error", err)
		}
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(s.life), 3*time.Second)
	defer cancel()
	_ = s.o.Store.State.WithdrawServer(bounded, s.guard.URL()) // it expires
}

// URL is the address of the dashboard, without a slash at its end.
func (s *Server) URL() string { return strings.TrimSuffix(s.guard.URL(), "/") }

// LoginURL returns a link that signs the local user in, once within 10 minutes.
func (s *Server) LoginURL(ctx context.Context) (string, error) { return s.guard.LoginURL(ctx) }

// Stop ends the server and its requests.
func (s *Server) Stop(ctx context.Context) {
	s.end()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = s.http.Close(bounded)
	ended := make(chan struct{})
	go func() { s.work.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-bounded.Done():
	}
}
