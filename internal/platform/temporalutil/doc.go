// Package temporalutil finds Temporal and connects to it: flags, environment and
// temporal.toml under Temporal's own names, a dial that ends in bounded time
// with an error that says what to do, and the search attributes that a
// namespace may or may not have.
//
// Start reading in dial.go:
//
//	dial.go               how long a connection may take, and whether nobody has answered or the server has refused this client
//	options.go            which address counts: a flag, the environment, temporal.toml, the server of `maestro dev`, or
//	                      127.0.0.1:7233; the flags, and the largest temporal.toml and file with a certificate or key
//	local.go              where `maestro dev` announces its server, and whether that still runs
//	call_errors.go        whether a failed call may succeed a moment later, and whether a workflow or a namespace is not known
//	attributes.go         whether a namespace has the search attributes, how missing ones are added, and after what time they are
//	                      looked for again
//	running_workflows.go  which workflows of a type run on a task queue
//	signals.go            signals that no worker has read, and among how many events
//	logger.go             which level and which names the SDK's log lines get
package temporalutil
