// Package client calls the HTTP API of a `maestro serve`: the operations of internal/faces/httpapi's table, with their inputs,
// documents and errors, so that the same command works with a server and without.
//
// Start reading in call.go, at Call:
//
//	call.go    how the input of an operation becomes a path, a query and a body
//	client.go  how long a server may take to answer, how often and how long a request is repeated, the largest document, and when
//	           a token may be sent without encryption
//	errors.go  which answers mean that the server refuses, is busy or is away, and which of these are tried again
package client
