package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// MetricsPath is where metrics are served.
const MetricsPath = "/metrics"

// ErrListen marks the error of an address that cannot be listened on.
var ErrListen = errors.New("metrics cannot be served")

// headerLimit bounds how long a client may take to say what it wants.
const headerLimit = 5 * time.Second

// server serves /metrics until it is stopped.
type server struct {
	address string
	http    *http.Server
	ended   chan struct{}
}

// serve listens on address at once, and fails where that is not possible.
func serve(ctx context.Context, address string, registry *prometheus.Registry) (*server, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("metrics address %q is not a host and port, like 127.0.0.1:9464", address)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w on %s; choose another --metrics-address: %w", ErrListen, address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+MetricsPath, promhttp.InstrumentMetricHandler(registry, promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})))
	s := &server{
		address: listener.Addr().String(), ended: make(chan struct{}),
		http: &http.Server{Handler: mux, ReadHeaderTimeout: headerLimit},
	}
	go func() {
		defer close(s.ended)
		_ = s.http.Serve(listener) // until stop
	}()
	return s, nil
}

// stop ends the server when the requests under way have been answered.
func (s *server) stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	<-s.ended
	return err
}
