package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	nometric "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/sdk/client"

	"github.com/maestro-hive/maestro/internal/platform/httpserver"
)

// scope names the instruments and spans that are Maestro's own.
const scope = "github.com/maestro-hive/maestro"

// flushLimit limits the last export of a process that ends.
const flushLimit = 2 * time.Second

// Options define what to export, and the identity of the process.
type Options struct {
	// Service is the service.name, unless OTEL_SERVICE_NAME is another.
	Service string
	// Version is the build's.
	Version string
	// MetricsAddress is the host and port to serve /metrics on; empty: nowhere.
	// Port 0 takes a free one.
	MetricsAddress string
	// TracesOnly leaves metrics out, for a process that is about to end.
	TracesOnly bool
	// Getenv reads the environment. It says whether OTLP is exported; the
	// exporters read their own settings from the process's environment.
	Getenv func(string) string
	// Clock tells the time; Logger gets what cannot be exported. A nil Logger
	// drops it.
	Clock  func() time.Time
	Logger *slog.Logger
}

// Telemetry exports metrics and traces until it is closed. Its zero exports
// nothing.
type Telemetry struct {
	options  Options
	meters   *sdkmetric.MeterProvider
	tracers  *sdktrace.TracerProvider
	recorder *Recorder
	server   *httpserver.Server
}

// Start begins to export what the options and the environment configure. If that is nothing,
// nothing is measured. Data that cannot be exported later is logged and lost; no caller waits for
// it.
func Start(ctx context.Context, o Options) (_ *Telemetry, err error) {
	asked, err := askedFor(o.Getenv)
	if err != nil {
		return nil, err
	}
	asked.metrics.on = asked.metrics.on && !o.TracesOnly
	t := &Telemetry{options: o}
	if o.MetricsAddress == "" && !asked.metrics.on && !asked.traces.on {
		return t, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	if asked.metrics.on || asked.traces.on {
		// OpenTelemetry has one such handler for the whole process.
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
			if o.Logger != nil {
				o.Logger.Warn("telemetry is lost", "error", err)
			}
		}))
	}
	described, err := describe(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := t.startMetrics(ctx, asked, described); err != nil {
		return nil, err
	}
	var meters metric.MeterProvider = nometric.NewMeterProvider()
	if t.meters != nil {
		meters = t.meters
	}
	tracer := notrace.NewTracerProvider().Tracer(scope)
	if asked.traces.on {
		exporter, err := traceExporter(ctx, asked.traces)
		if err != nil {
			return nil, err
		}
		t.tracers = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described),
			sdktrace.WithIDGenerator(identities{}))
		tracer = t.tracers.Tracer(scope, trace.WithInstrumentationVersion(o.Version))
	}
	if t.recorder, err = newRecorder(meters.Meter(scope), tracer, o.Clock); err != nil {
		return nil, err
	}
	t.recorder.built.Record(ctx, 1, metric.WithAttributes(attribute.String("version", o.Version),
		attribute.String("go_version", runtime.Version())))
	return t, nil
}

// startMetrics makes the meter provider, and serves /metrics if that is asked for.
func (t *Telemetry) startMetrics(ctx context.Context, asked asked, described *resource.Resource) error {
	if t.options.MetricsAddress == "" && !asked.metrics.on {
		return nil
	}
	with := []sdkmetric.Option{sdkmetric.WithResource(described), sdkmetric.WithView(temporalView)}
	if asked.metrics.on {
		exporter, err := metricExporter(ctx, asked.metrics)
		if err != nil {
			return err
		}
		with = append(with, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(exporter)))
	}
	if t.options.MetricsAddress != "" {
		registry := prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(),
			otelprometheus.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes))
		if err != nil {
			return fmt.Errorf("metrics for Prometheus: %w", err)
		}
		with = append(with, sdkmetric.WithReader(reader))
		if t.server, err = serve(ctx, t.options.MetricsAddress, registry); err != nil {
			return err
		}
	}
	t.meters = sdkmetric.NewMeterProvider(with...)
	return nil
}

// describe is the identity of this process; the environment overrides it.
func describe(ctx context.Context, o Options) (*resource.Resource, error) {
	own := resource.NewSchemaless(
		attribute.String("service.name", o.Service), attribute.String("service.version", o.Version))
	given, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithFromEnv(), resource.WithHost())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return resource.Merge(own, given)
}

// Address is where /metrics is served; empty where it is not.
func (t *Telemetry) Address() string {
	if t == nil || t.server == nil {
		return ""
	}
	return t.server.Address()
}

// Server is what serves /metrics, and may serve more; nil where nothing does.
func (t *Telemetry) Server() *httpserver.Server {
	if t == nil {
		return nil
	}
	return t.server
}

// URL is the address of the metrics for a browser.
func (t *Telemetry) URL() string { return "http://" + t.Address() + MetricsPath }

// Recorder records what is exported. It records nothing if nothing is exported.
func (t *Telemetry) Recorder() *Recorder {
	if t == nil || t.recorder == nil {
		// it refuses no instrument
		r, _ := newRecorder(nometric.NewMeterProvider().Meter(scope), notrace.NewTracerProvider().Tracer(scope), time.Now)
		return r
	}
	return t.recorder
}

// Measures reports whether metrics are exported.
func (t *Telemetry) Measures() bool { return t != nil && t.meters != nil }

// Instrument adds metrics and traces to the calls of a client and its workers. It adds nothing if
// nothing is exported.
func (t *Telemetry) Instrument(o *client.Options) {
	if t == nil {
		return
	}
	if t.meters != nil {
		o.MetricsHandler = temporalMetrics(t.meters.Meter("temporal-sdk-go"), t.options.Logger)
	}
	if t.tracers != nil {
		o.Interceptors = append(o.Interceptors, interceptors(t.tracers.Tracer("temporal-sdk-go"))...)
	}
}

// Close exports the remaining data, for at most two seconds, and ends. The error reports that the
// last data could not be delivered.
func (t *Telemetry) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
	defer cancel()
	var failed []error
	if t.tracers != nil {
		failed = append(failed, t.tracers.Shutdown(ctx))
	}
	if t.meters != nil {
		failed = append(failed, t.meters.Shutdown(ctx))
	}
	if t.server != nil {
		failed = append(failed, t.server.Close(ctx))
	}
	return errors.Join(failed...)
}
