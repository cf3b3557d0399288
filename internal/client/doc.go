// Package client calls the HTTP API of a `maestro serve`. Its operations have the signatures of
// those of the control plane, and return its documents and errors, so that the same command works
// with both.
package client
