// Package temporalutil finds Temporal and connects to it: flags, environment and
// temporal.toml under Temporal's own names, a dial that ends in bounded time
// with an error that says what to do, and the search attributes that a
// namespace may or may not have.
package temporalutil
