// Package app is the room of the programs: what a person starts and what runs until it is stopped.
//
//	cli       the commands of maestro: flags, texts, exit codes
//	serve     the HTTP server of a store: dashboard, API, MCP
//	doctor    checks of a host
//	localdev  a Temporal server and a worker for one machine
//	schemagen writes docs/schema and the tables of keys
//
// It may import every other room; only the mains in starter/ and worker/ import it. Start reading
// in cli/run.go: from the command, also for a text in a repository without a team, to the operation that starts a session.
package app
