package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Statistics are the results of the sessions of the store that a filter selects, in groups by keys
// of [state.StatisticsKeys]: how many completed and failed, how many attempts assignments took, how
// long requests waited. The filter's Namespace, After and Limit are ignored.
func (s Sessions) Statistics(ctx context.Context, by []string, f state.Filter) ([]state.Statistic, error) {
	if err := checkKeys(by, state.StatisticsKeys); err != nil {
		return nil, err
	}
	if _, err := s.stored(); err != nil {
		return nil, err
	}
	var err error
	if f.Teams, err = seen(ctx, f.Teams); err != nil {
		return nil, err
	}
	f.Namespace = s.Namespace
	return s.Store.State.Statistics(ctx, by, f)
}

// seen are the teams of the counted sessions: the named ones, or all that the caller may view.
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
		if err := access.Check(ctx, access.View, cmp.Or(team, access.AllTeams)); err != nil {
			return nil, err
		}
	}
	return named, nil
}

// checkKeys rejects group keys that are unknown, or given twice.
func checkKeys(by, known []string) error {
	for i, key := range by {
		if !slices.Contains(known, key) || slices.Contains(by[:i], key) {
			return invalidf("by", "%q: use distinct fields of %s", textfmt.Shorten(key, 80), strings.Join(known, ", "))
		}
	}
	return nil
}
