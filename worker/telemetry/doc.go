// Package telemetry converts events in a process to metrics and traces, by OpenTelemetry: metrics
// for Prometheus, and both for an OTLP collector, by the standard variables. The name of a session
// is never an attribute of a metric. Metrics and traces contain no text that a model wrote or read,
// no secret and no error message.
package telemetry
