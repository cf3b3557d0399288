// Package telemetry converts events in a process to metrics and traces, by OpenTelemetry: metrics for Prometheus, and both for
// an OTLP collector, by the standard variables. The name of a session is never an attribute of a metric. Metrics and traces
// contain no text that a model wrote or read, no secret and no error message.
//
// Start reading in telemetry.go, at Start, and in recorder.go:
//
//	telemetry.go  what is exported, the identity of the process, and how long the last export may take
//	recorder.go   the counters and histograms of sessions, rounds, attempts, slots and rooms, and their attributes
//	calls.go      the metrics and spans of paid calls: tokens, money and durations
//	standing.go   the gauges of breakers, budgets, workers and open sessions, and how long a budget's fraction is shown
//	tracing.go    which spans there are, that they are the same after a replay, and which of Temporal's own metrics are kept
//	exporters.go  which variables switch the export by OTLP on, and its protocol; server.go: where metrics for Prometheus are
//	              served
package telemetry
