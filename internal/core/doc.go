// Package core is the room of the vocabulary, without I/O: what files declare and what sessions record.
//
//	spec      teams, phases, names, offers
//	session   status, requests, checkpoints, rounds
//	failures  the failure table: whose failure it is, and what follows
//	cost      tokens and prices; budget: limits and what counts against them
//	delivery  what a pull request needs next, and its texts
//	textfmt   short texts; safetext: texts of others, made safe; secrets: masking
//
// It imports nothing else of Maestro; every room imports it. Start reading in session/status.go.
package core
