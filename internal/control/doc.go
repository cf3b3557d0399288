// Package control is the control plane of a store and its Temporal namespace: what people
// and programs can see of sessions, and do to them. Each noun is a type with its operations,
// which take and return documents with stable JSON names. The command line, the HTTP API,
// the dashboard and the MCP server are surfaces of it: they know how input arrives and how
// documents are shown, and nothing else.
//
// Errors are an [*Error] with a kind, and those of the store and of Temporal.
package control
