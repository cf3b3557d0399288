// Package httpserver serves what other programs ask a running process by HTTP:
// its metrics, and how it is.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// ErrListen marks the error of an address that cannot be listened on.
var ErrListen = errors.New("the address cannot be served")

// headerLimit bounds how long a client may take to say what it wants.
const headerLimit = 5 * time.Second

// maxHeader bounds the header of a request, in bytes.
const maxHeader = 128 << 10

// idleLimit bounds how long a connection stays open between requests.
const idleLimit = 2 * time.Minute

// Server answers on one address until it is closed. What it answers may be added
// at any time.
type Server struct {
	address *net.TCPAddr
	mux     *http.ServeMux
	whole   atomic.Pointer[http.Handler]
	http    *http.Server
	ended   chan struct{}
}

// Listen listens on a host and port at once, and fails with an [ErrListen] where
// that is not possible. Port 0 takes a free one, no host all interfaces. Nothing
// is answered yet but that it is not found.
func Listen(ctx context.Context, address string) (*Server, error) {
	return listen(ctx, address, serverBounds)
}

// ListenForProbes is Listen for health and metrics: they answer also if other servers of the
// process have all the connections that they may have.
func ListenForProbes(ctx context.Context, address string) (*Server, error) {
	return listen(ctx, address, probeBounds)
}

func listen(ctx context.Context, address string, b Bounds) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListen, err)
	}
	return serve(Bound(listener, b)), nil
}

// serve answers the connections of a listener.
func serve(listener net.Listener) *Server {
	mux := http.NewServeMux()
	s := &Server{
		address: listener.Addr().(*net.TCPAddr), mux: mux, ended: make(chan struct{}),
		http: &http.Server{
			ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit, MaxHeaderBytes: maxHeader,
			ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		},
	}
	s.http.Handler = http.HandlerFunc(s.answer)
	go func() {
		defer close(s.ended)
		_ = s.http.Serve(listener) // until Close
	}()
	return s
}

// Handle answers a pattern of [http.ServeMux]; each may be given once.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// HandleAll has a handler answer every request, whatever its path, and nothing else.
func (s *Server) HandleAll(h http.Handler) { s.whole.Store(&h) }

// connKey is the context key of a request's connection.
type connKey struct{}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*boundConn); ok {
		c.answering.Store(true)
		defer c.answering.Store(false)
	}
	if h := s.whole.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Address is the host and port that it listens on.
func (s *Server) Address() string { return s.address.String() }

// Port is the port that it listens on.
func (s *Server) Port() int { return s.address.Port }

// Close ends the server when the requests under way have been answered.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	<-s.ended
	return err
}
