// Package launch starts sessions: a new one, the next run of one that has ended, and a fork
// of another. It runs all checks first, stores the input, starts the workflow, and waits until a
// worker has admitted it.
//
// Errors are typed and name no command: callers add the command with which a person continues.
package launch
