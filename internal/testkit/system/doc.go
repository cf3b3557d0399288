// Package system tests Maestro as its users have it: the built programs, as
// processes, against a real Temporal server, killed the hard way. It holds
// tests only.
package system
