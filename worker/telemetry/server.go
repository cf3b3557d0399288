package telemetry

import (
	"context"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/maestro-hive/maestro/internal/platform/httpserver"
)

// MetricsPath is where metrics are served.
const MetricsPath = "/metrics"

// serve serves metrics on an address, and fails where that is not possible.
func serve(ctx context.Context, address string, registry *prometheus.Registry) (*httpserver.Server, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("metrics address %q is not a host and port, like 127.0.0.1:9464", address)
	}
	server, err := httpserver.ListenForProbes(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("metrics cannot be served on %s; choose another --metrics-address: %w", address, err)
	}
	server.Handle("GET "+MetricsPath,
		promhttp.InstrumentMetricHandler(registry, promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry})))
	return server, nil
}
