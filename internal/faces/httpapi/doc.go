// Package httpapi is the HTTP API: the operations of internal/ops/control under /api/v1, with an OpenAPI 3.1 document made from
// the same Go types. Errors are application/problem+json. Whoever calls has been identified before, by the middleware of
// internal/access.
//
// Start reading in table.go:
//
//	table.go        all operations: method, path, name, what runs, which of them agents may use, and whose answer has a secret
//	operation.go    how an operation reads its input and writes its answer, and the largest body that is read
//	api.go          the prefix of all paths, and the answer to a path or method that there is not
//	problem.go      the HTTP status of each kind of error, and which errors are logged and not sent
//	idempotency.go  how long the answer to an Idempotency-Key is repeated, how long a request with one counts as in progress, the
//	                longest key, and the largest answer that is stored
//	stream.go       how many streams a person and all may follow at once, and the longest silence of one; download.go: how an
//	                error ends a download
//	inbound.go      the answers to calls of hooks, and what is logged of one that is refused
//	tools.go        operations as tools for agents: their schema, and the inputs that agents do not choose
//	schema.go       how types like money, durations, teams and approvals are described in the OpenAPI document
package httpapi
