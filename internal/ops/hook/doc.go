// Package hook reads the calls of other systems that start sessions: it verifies the signature of a
// call, gives each call an identity that stays the same when it is repeated, and reads the session's
// parameters from it. It uses neither the store nor HTTP, except headers and bodies.
package hook
