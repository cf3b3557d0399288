package codehost

import (
	"regexp"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

var (
	// stamp is the time before each line of a log of GitHub Actions.
	stamp = regexp.MustCompile(`(?m)^\x{feff}?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z `)
	// failed is how GitHub Actions writes an error into a log.
	failed = regexp.MustCompile(`(?m)^##\[error\].*$`)
)

// tailOfLog is the end of a log up to its last error: steps that clean up follow it.
func tailOfLog(log []byte) string {
	text := stamp.ReplaceAllString(safetext.Block(string(log)), "")
	if at := failed.FindAllStringIndex(text, -1); at != nil {
		text = text[:at[len(at)-1][1]]
	}
	return textfmt.Tail(strings.TrimSpace(text), delivery.MaxText)
}
