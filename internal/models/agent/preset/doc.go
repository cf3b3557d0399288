// Package preset describes agent programs (Claude Code, Codex, Gemini CLI): their flags, event
// streams and usage files. It starts no process.
//
// Start reading in preset.go, at Program and Parser:
//
//	preset.go    which presets there are, what is known of each program, and when a flag is added to its argv
//	claude.go    Claude Code: the flags and permissions that it is started with, what its events mean, and why it has
//	             failed; codex.go: the same of Codex, and after how many messages without a network it is stopped;
//	             gemini.go: the same of Gemini CLI, with its exit statuses
//	run.go       what the events of all programs have in common: the usage, whether a request may be in progress, the
//	             summary, and when the work has ended; how long an id and a text may be, and how many conversations there
//	             may be
//	faults.go    the failure category of what a program says about its provider: a rate limit, a full context, a missing
//	             credit, a wrong key; and how long the limit of a provider lasts
//	usagelog.go  what the files below HOME say of a program's usage, how much of them is read, and the estimate of its
//	             next request
package preset
