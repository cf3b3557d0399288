// Package examples carries the example teams inside the maestro binary, so that
// `maestro demo` needs nothing beside it.
package examples

import "embed"

// FS holds the files of the examples whose agents are shell scripts, a directory
// each.
//
//go:embed shortener shell
var FS embed.FS
