package control

import (
	"archive/tar"
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// The limits of files that are given as texts.
const (
	maxGiven      = 200
	maxGivenBytes = 512 << 10
)

// Keep stores files that are given as texts, by path, like Upload stores those of an archive.
func (s Starts) Keep(ctx context.Context, to Recipient, files map[string]string) (Workspace, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if len(files) > maxGiven {
		return Workspace{}, invalidf("files", "files: there are %d; at most %d are taken", len(files), maxGiven)
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if total += len(text); total > maxGivenBytes {
			return Workspace{}, invalidf("files", "files: the texts have more than %s together", textfmt.Size(maxGivenBytes))
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Format: tar.FormatPAX}); err != nil {
			return Workspace{}, invalidf("files", "files: %q: %w", textfmt.Shorten(name, 80), err)
		}
		_, _ = w.Write([]byte(text)) // in memory
	}
	if err := w.Close(); err != nil {
		return Workspace{}, err
	}
	doc, err := s.Upload(ctx, to, &archive)
	if err == nil && len(doc.Odd) > 0 { // whoever writes a path can write another one
		err = invalidf("files", "files: %s", strings.Join(doc.Odd, "; "))
	}
	return doc, err
}
