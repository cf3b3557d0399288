// Package telemetry turns what happens in a process into metrics and traces, by
// OpenTelemetry: metrics for Prometheus to scrape, and both for an OTLP
// collector, as the standard variables say. No name of a session is ever a
// metric's attribute, and no text that a model wrote or read, no secret and no
// error message is in either.
package telemetry
