package telemetry

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The protocols that OTLP is spoken in.
const (
	overHTTP = "http/protobuf"
	overGRPC = "grpc"
)

// asked is what the environment configures for OTLP.
type asked struct{ metrics, traces signal }

// signal is whether, and how, one kind of telemetry is exported.
type signal struct {
	on       bool
	protocol string
}

// askedFor reads OpenTelemetry's standard variables. A signal is exported if it has an endpoint,
// its own or the common one, unless its exporter is none.
func askedFor(getenv func(string) string) (asked, error) {
	var a asked
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return a, nil
	}
	for _, s := range []struct {
		name string
		into *signal
	}{{"METRICS", &a.metrics}, {"TRACES", &a.traces}} {
		if getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_"+s.name+"_ENDPOINT") == "" {
			continue
		}
		switch exporter := getenv("OTEL_" + s.name + "_EXPORTER"); exporter {
		case "", "otlp":
		case "none":
			continue
		default:
			return a, fmt.Errorf("OTEL_%s_EXPORTER is %q; Maestro exports by otlp, or none", s.name, exporter)
		}
		variable := "OTEL_EXPORTER_OTLP_" + s.name + "_PROTOCOL"
		protocol := getenv(variable)
		if protocol == "" {
			variable = "OTEL_EXPORTER_OTLP_PROTOCOL"
			protocol = getenv(variable)
		}
		switch protocol {
		case "":
			protocol = overHTTP
		case overHTTP, overGRPC:
		default:
			return a, fmt.Errorf("%s is %q; Maestro speaks %s and %s", variable, protocol, overHTTP, overGRPC)
		}
		*s.into = signal{on: true, protocol: protocol}
	}
	return a, nil
}

func metricExporter(ctx context.Context, s signal) (sdkmetric.Exporter, error) {
	if s.protocol == overGRPC {
		return otlpmetricgrpc.New(ctx)
	}
	return otlpmetrichttp.New(ctx)
}

func traceExporter(ctx context.Context, s signal) (sdktrace.SpanExporter, error) {
	if s.protocol == overGRPC {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}
