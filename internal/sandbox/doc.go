// Package sandbox is the room of the processes of agents and checks, and of the directories that they work in.
//
//	procgroup starts a process below a shim, captures its output and ends everything that it started
//	room      the shim: namespaces, mounts, limits; proctree: the processes below a process: how they
//	          are killed, and their memory
//	workdir   the directories of attempts; layers: trees as read-only layers below them
//	caches    caches of agents and checks on this host
//	egress    the proxy through which a room reaches listed hosts
//
// It imports the store, platform and core; models and the worker import it. Start reading in
// procgroup/process.go.
package sandbox
