package control

import (
	"context"
	"maps"
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
	var err error
	if f.Teams, err = seen(ctx, f.Teams); err != nil {
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

// seen are the teams whose sessions are added up: those that are named, or all that the caller may view.
func seen(ctx context.Context, named []string) ([]string, error) {
	all := access.Check(ctx, access.View, access.AllTeams)
	if all == nil {
		return named, nil
	}
	if len(named) == 0 {
		caller, _ := access.Of(ctx)
		if named = slices.Sorted(maps.Keys(caller.Roles)); len(named) == 0 {
			return nil, all
		}
	}
	for _, team := range named {
		if err := access.Check(ctx, access.View, team); err != nil {
			return nil, err
		}
	}
	return named, nil
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
