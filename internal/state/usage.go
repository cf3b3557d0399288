package state

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// SessionCost is a sum of costs of many sessions.
type SessionCost struct {
	Team, Session string
	Cost
}

func (c *SessionCost) field(key string) *string {
	switch key {
	case "team":
		return &c.Team
	case "session":
		return &c.Session
	}
	return c.key(CostKey(key))
}

// Usage sums the costs of the calls that began on a day or later, of the sessions that the filter selects, by some of team,
// session, phase, persona, agent, model and day: the newest day first, then the sessions that began to pay last, then by name. An empty day is any. The filter's
// After and Limit are ignored.
func (d *DB) Usage(ctx context.Context, by []string, since string, f Filter) (costs []SessionCost, err error) {
	w := &where{}
	from, figures := `totals c`, totalSums
	if onlyTotals(by, f) {
		w.add("c.namespace = ?", f.Namespace)
		oneOf(w, "c.team", f.Teams)
	} else {
		w, figures = f.where(), callSums
		from = `calls c join (select s.namespace, s.session, s.started_at as session_started from sessions s where ` + w.String() + `) s
			on c.namespace = s.namespace and c.session = s.session`
		w.conditions = []string{"true"}
	}
	if since != "" {
		w.add("c.day >= ?", since)
	}
	selected, grouped := "", ""
	if len(by) > 0 {
		selected = ", c." + strings.Join(by, ", c.")
		grouped = " group by " + selected[2:] + order(by, f)
	}
	err = d.Read(ctx, func(t *Tx) error {
		costs = nil
		return t.each(func(r *sql.Rows) error {
			var c SessionCost
			fields := c.sums()
			for _, key := range by {
				fields = append(fields, c.field(key))
			}
			err := r.Scan(fields...)
			costs = append(costs, c)
			return err
		}, `select `+figures+selected+` from `+from+` where `+w.String()+grouped, w.args...)
	})
	return costs, err
}

// onlyTotals reports whether the totals have all that is asked for: they know neither sessions nor their parts.
func onlyTotals(by []string, f Filter) bool {
	return !slices.ContainsFunc(by, func(key string) bool { return key == "session" || key == "phase" || key == "persona" }) &&
		len(f.Status)+len(f.Labels) == 0 && f.Since.IsZero() && f.Until.IsZero() && f.AlertedSince.IsZero() && f.Text == "" && f.Session == ""
}

// order sorts the sums: those of one session as it began to pay.
func order(by []string, f Filter) string {
	var keys []string
	if slices.Contains(by, "day") {
		keys = append(keys, "c.day desc")
	}
	switch {
	case f.Session != "":
		keys = append(keys, "min(c.begun_at)")
	case slices.Contains(by, "session"):
		keys = append(keys, "max(s.session_started) desc")
	}
	for _, key := range by {
		keys = append(keys, "c."+key)
	}
	return " order by " + strings.Join(keys, ", ")
}
