// Package client calls the HTTP API of a `maestro serve`: the operations of internal/faces/httpapi's table,
// with their inputs, documents and errors, so that the same command works with a server and without.
package client
