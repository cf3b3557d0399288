// Package launch starts sessions: a new one, the next incarnation of one that has ended,
// and a fork of another. It checks first what can be checked, stores the input, starts
// the workflow, and waits until a worker has admitted it.
//
// Errors are typed and name no command: whoever calls knows how a person goes on.
package launch
