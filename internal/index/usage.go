package index

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/usage"
)

// Usage sums the costs of sessions, like [usage.Sum]: by keys of [usage.Keys], without the costs of
// days before since. Days come newest first, then sessions newest first, then the other keys by
// name. The filter's After and Limit are ignored.
func (x *Index) Usage(ctx context.Context, by []string, since string, f Filter) (rows []usage.Row, total usage.Spending, err error) {
	for _, key := range by {
		if !slices.Contains(usage.Keys, key) {
			return nil, total, fmt.Errorf("usage cannot be grouped by %.40q", key)
		}
	}
	g := f.grouping(by)
	g.where.add("f.kind < ?", worked)
	if since != "" {
		g.where.add("(f.day = '' OR f.day >= ?)", since)
	}
	started := map[string]int64{}
	err = x.use(ctx, func(db *sql.DB) error {
		sums := map[usage.Row]usage.Spending{}
		if err := each(ctx, db, g.query(costs), g.where.arguments, func(v *values) error {
			kind := v.integer()
			var row usage.Row
			if g.bySession {
				at := v.integer()
				row.Session = v.text()
				started[row.Session] = at
			}
			for _, key := range g.keys {
				*row.Key(key) = v.text()
			}
			sums[row] = sums[row].Add(spending(kind, v))
			return nil
		}); err != nil {
			return err
		}
		rows, total = make([]usage.Row, 0, len(sums)), usage.Spending{}
		for row, sum := range sums {
			row.Spending = sum
			rows, total = append(rows, row), total.Add(sum)
		}
		return nil
	})
	if err != nil {
		return nil, total, fmt.Errorf("read the index: %w", err)
	}
	slices.SortFunc(rows, func(a, b usage.Row) int {
		order := cmp.Or(strings.Compare(b.Day, a.Day), cmp.Compare(started[b.Session], started[a.Session]), strings.Compare(a.Session, b.Session))
		for _, key := range by {
			order = cmp.Or(order, strings.Compare(*a.Key(key), *b.Key(key)))
		}
		return order
	})
	return rows, total, nil
}

// spending reads the figures of costs of a kind.
func spending(kind int64, v *values) (s usage.Spending) {
	calls := int(v.integer())
	used := cost.Usage{
		InputTokens: v.integer(), OutputTokens: v.integer(), CacheReadTokens: v.integer(), CacheWriteTokens: v.integer(),
		ReasoningTokens: v.integer(), CostUSD: cost.USD(v.integer()),
	}
	switch kind {
	case unsettled:
		s.Unsettled = usage.Unsettled{Calls: calls, Usage: used}
	case reserved:
		s.Reserved = usage.Reserved{Calls: calls, Amount: cost.Amount{Tokens: used.InputTokens, USD: used.CostUSD}}
	default:
		s = usage.Spent(calls, used)
	}
	return s
}

// costNumbers is the reverse of spending.
func costNumbers(calls int, u cost.Usage) numbers {
	return numbers{int64(calls), u.InputTokens, u.OutputTokens, u.CacheReadTokens, u.CacheWriteTokens, u.ReasoningTokens, int64(u.CostUSD)}
}

// grouping is how facts are summed.
type grouping struct {
	where *condition
	// keys are those of the rows, without the session.
	keys      []string
	bySession bool
	group     []string
}

// grouping sums by keys over the sessions of the filter.
func (f Filter) grouping(by []string) grouping {
	g := grouping{where: f.sessions(), bySession: slices.Contains(by, "session")}
	for _, key := range by {
		switch key {
		case "session":
			continue
		case "team":
			g.group = append(g.group, "s.team")
		default:
			g.group = append(g.group, "f."+key)
		}
		g.keys = append(g.keys, key)
	}
	return g
}

// query sums figures. Its rows have the kind, the session and its start, the keys, and the sums.
func (g grouping) query(figures []string) string {
	shown, by := []string{"f.kind"}, []string{"f.kind"}
	if g.bySession {
		shown, by = append(shown, "s.started", "s.session"), append(by, "f.session")
	}
	shown = append(shown, g.group...)
	for _, key := range g.group {
		if !g.bySession || key != "s.team" { // a session has one team
			by = append(by, key)
		}
	}
	// Facts are in the order of sessions, so they need not be sorted to be summed by session.
	return "SELECT " + strings.Join(shown, ", ") + ", " + columns(figures, "sum(f.", ")") +
		" FROM facts AS f CROSS JOIN sessions AS s ON s.id = f.session WHERE " + g.where.String() + " GROUP BY " + strings.Join(by, ", ")
}
