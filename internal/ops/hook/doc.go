// Package hook reads the calls of other systems that start sessions, or wake those that wait for a pull request: it verifies
// the signature of a call, gives each call an identity that stays the same when it is repeated, and reads from it the
// session's parameters or the pull request. It uses neither the store nor HTTP, except headers and bodies.
package hook
