// Package config reads team files and worker files.
//
// It is strict. A file is either accepted as a whole, or rejected with all of its problems, each
// with its position, its field, what is wrong, how to correct it, and the lines around it.
//
// The types of the files, their rules and their defaults are in packages spec and agent.
//
// Start reading in load.go:
//
//	load.go      in which order a team file and a worker file are checked: the schema, the rules on several keys, then the
//	             defaults
//	source.go    how large a file may be, which text is refused, and where an instructions_file may be
//	parse.go     how deep values may be nested, and what is said of wrong YAML
//	document.go  the line of each value (locate), how many values a file may have and how many problems are collected,
//	             aliases, merged mappings, and the x- keys that are ignored
//	rules.go     unknown keys, missing keys and wrong values, by the schema, and which key was probably meant; messages.go:
//	             how a wrong value is described
//	fill.go      that durations and sizes are within their bounds; foreign.go: files of other systems, and what to write
//	             instead
//	problems.go  what is shown of a problem: its position, the lines around it, and how many problems
package config
