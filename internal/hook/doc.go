// Package hook reads the calls of other systems that start sessions: it verifies who has signed a
// call, gives each call an identity that does not change when it is repeated, and takes from it what
// the session needs. It knows neither the store nor HTTP beyond headers and bodies.
package hook
