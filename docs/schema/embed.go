// Package schema carries the JSON Schemas of team and worker files inside the
// maestro binary. They are generated from the types that the files are read into.
package schema

import _ "embed"

//go:generate go run ../../internal/app/schemagen -source ../.. -out . -pages ..

// Team is the JSON Schema (draft 2020-12) of team files, Worker that of worker
// files.
var (
	//go:embed team.json
	Team []byte
	//go:embed worker.json
	Worker []byte
)
