// Package activities does what a session's workflow decides: it runs agents,
// keeps their work in the store, and writes checkpoints. Each struct here works
// against the ports that it declares; what implements them is wired in by the
// worker's host.
//
// The file to read first is round.go: one round of one assignment, with all
// that decides about attempts.
package activities
