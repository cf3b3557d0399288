// Command schemagen writes the JSON Schemas of team and worker files, and the tables of keys in the pages on them.
//
// What a file may say is in the tags of the Go types that it is read into, and what it means in their docstrings; both are
// taken from there. The loader validates with these schemas, and checks in code what depends on several parts of a file.
//
// Start reading in main.go, at write:
//
//	main.go       the flags, and the files that are written
//	generate.go   which files have a schema, and how a docstring becomes the description of a key
//	tags.go       what the tags of a field do: between, keys, example, only and needed; and where the defaults are taken from
//	shapes.go     what names, branches, addresses, hosts, labels and file patterns have to look like, and the message about one
//	              that does not
//	reference.go  the tables of keys in docs/team-file.md and docs/worker-file.md: links, bounds and defaults
package main
