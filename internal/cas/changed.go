package cas

import (
	"context"

	"github.com/maestro-hive/maestro/internal/spec"
)

// Changed lists the paths that a tree has and its input does not have, or has
// with other content, sorted.
func (s trees) Changed(ctx context.Context, input, tree spec.Digest) ([]string, error) {
	before, err := s.SharedManifest(ctx, input)
	if err != nil {
		return nil, err
	}
	after, err := s.SharedManifest(ctx, tree)
	if err != nil {
		return nil, err
	}
	return Diff(before, after).Changed(), nil
}
