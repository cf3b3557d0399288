package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// HistoryFilter selects sessions of the store, and the groups of their sums.
type HistoryFilter struct {
	Teams  []string        `query:"team" maxItems:"100" doc:"only sessions of these teams"`
	Status []session.State `query:"status" maxItems:"20" doc:"only sessions in these states"`
	Since  time.Time       `query:"since" doc:"only sessions that started at this time or later"`
	Until  time.Time       `query:"until" doc:"only sessions that started before this time"`
	Labels []string        `query:"label,explode" maxItems:"16" doc:"only sessions with this label, as KEY=VALUE; may be given several times"`
	Text   string          `query:"text" maxLength:"200" doc:"only sessions whose id or requirement has this text"`
	By     []string        `query:"by" maxItems:"20" default:"team" doc:"fields to group by, separated by commas"`
}

// selected is the filter for the sessions that the caller may view.
func (f HistoryFilter) selected(ctx context.Context, b *Base) (state.Filter, error) {
	labels, err := ParseLabels(f.Labels)
	if err != nil {
		return state.Filter{}, err
	}
	teams, err := seen(ctx, f.Teams)
	return state.Filter{
		Namespace: b.Namespace, Teams: teams, Status: f.Status, Since: f.Since, Until: f.Until, Labels: labels,
		Text: f.Text,
	}, err
}

// Statistics is what came of sessions, in groups.
type Statistics struct {
	By     []string          `json:"by"`
	Groups []state.Statistic `json:"groups"`
}

// Statistics are the results of the sessions of the store that a filter selects, in groups by keys
// of [state.StatisticsKeys]: how many completed and failed, how many attempts assignments took, how
// long requests waited.
func (s Sessions) Statistics(ctx context.Context, in HistoryFilter) (Statistics, error) {
	doc := Statistics{By: in.By, Groups: []state.Statistic{}}
	if err := checkKeys(in.By, state.StatisticsKeys); err != nil {
		return doc, err
	}
	f, err := in.selected(ctx, s.Base)
	if err != nil {
		return doc, err
	}
	groups, err := s.Store.State.Statistics(ctx, in.By, f)
	doc.Groups = append(doc.Groups, groups...)
	return doc, err
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
