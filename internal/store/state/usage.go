package state

import (
	"context"
	"slices"
	"strings"
)

// Usage sums the costs of the calls that began on a day or later, of the sessions that the filter selects, by some of team,
// session, phase, persona, agent, model and day: the newest day first, then the sessions that were started last, and by name.
// Those of one session are in the order of its phases, and of the first call of each sum. An empty day is any. The filter's After
// and Limit are ignored.
func (d *DB) Usage(ctx context.Context, by []string, since string, f Filter) ([]Cost, error) {
	return read(ctx, d, func(t *Tx) ([]Cost, error) { return t.usage(by, since, f) })
}

func (t *Tx) usage(by []string, since string, f Filter) ([]Cost, error) {
	w, from, figures := &where{}, `calls c`, sums(func(f figure) string { return f.ofCall })
	switch {
	case onlyTotals(by, f):
		from, figures = `totals c`, sums(func(f figure) string { return f.name })
		w.add("c.namespace = ?", f.Namespace)
		oneOf(w, "c.team", f.Teams)
	case f.Session != "":
		w.add("c.namespace = ? and c.session = ?", f.Namespace, f.Session)
	default:
		w = f.where()
		from += ` join (select s.namespace, s.session, s.started_at as session_started from sessions s where ` + w.String() + `) s
			on c.namespace = s.namespace and c.session = s.session`
		w.conditions = []string{"true"}
	}
	if since != "" {
		w.add("c.day >= ?", since)
	}
	selected, grouped := keyColumns(CostKeys, by, func(key string) string { return "c." + key })
	if grouped != "" {
		grouped = " group by " + grouped + order(by, f)
	}
	costs, err := query[Cost](t, `select `+selected+`, `+figures+` from `+from+` where `+w.String()+grouped, w.args...)
	for i, c := range costs {
		costs[i].Tokens = c.Usage.Tokens()
	}
	return costs, err
}

// onlyTotals reports whether the totals have all that is asked for: they know neither sessions nor their parts.
func onlyTotals(by []string, f Filter) bool {
	return !slices.ContainsFunc(by, func(key string) bool { return key == "session" || key == "phase" || key == "persona" }) &&
		len(f.Status)+len(f.Labels) == 0 && f.Since.IsZero() && f.Until.IsZero() && f.AlertedSince.IsZero() && f.Text == "" &&
		f.Session == ""
}

// order sorts the sums: those of one session by its phases, and then as it began to pay. Phases that the team does not have
// any more come last.
func order(by []string, f Filter) string {
	var keys []string
	if slices.Contains(by, "day") {
		keys = append(keys, "c.day desc")
	}
	switch {
	case f.Session != "":
		keys = append(keys, `min(coalesce((select p.position from phases p
			where p.namespace = c.namespace and p.session = c.session and p.phase = c.phase), 1000000))`, "min(c.begun_at)")
	case slices.Contains(by, "session"):
		keys = append(keys, "max(s.session_started) desc")
	}
	for _, key := range by {
		keys = append(keys, "c."+key)
	}
	return " order by " + strings.Join(keys, ", ")
}
