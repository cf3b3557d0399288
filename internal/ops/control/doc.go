// Package control is the control plane of a store and its Temporal namespace: the operations by
// which people and programs read and change sessions. Each noun is a type with its operations,
// which take and return documents with stable JSON names. The command line, the HTTP API, the
// dashboard and the MCP server are its interfaces: they only convert input and display documents.
//
// Errors are an [*Error] with a kind, and those of the store and of Temporal.
package control
