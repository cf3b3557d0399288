package control

import (
	"context"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Statistics says what came of the sessions of the store that a filter selects, in groups by keys of
// [index.StatisticsKeys]: how many completed and failed, how many attempts assignments took, how long
// people were waited for. The filter's Namespace, After and Limit do not matter.
func (s Sessions) Statistics(ctx context.Context, by []string, f index.Filter) ([]index.Statistic, error) {
	if err := checkKeys(by, index.StatisticsKeys); err != nil {
		return nil, err
	}
	if _, err := s.stored(); err != nil {
		return nil, err
	}
	if err := access.Check(ctx, access.View, access.AllTeams); err != nil {
		return nil, err
	}
	x, _, done, err := s.indexed(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	f.Namespace = s.Namespace
	return x.Statistics(ctx, by, f)
}

// checkKeys refuses keys of groups that are not among those known, or come twice.
func checkKeys(by, known []string) error {
	for i, key := range by {
		if !slices.Contains(known, key) || slices.Contains(by[:i], key) {
			return invalidf("by", "%q: use distinct fields of %s", textfmt.Shorten(key, 80), strings.Join(known, ", "))
		}
	}
	return nil
}
