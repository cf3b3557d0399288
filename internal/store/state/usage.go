package state

import (
	"context"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
)

// Usage sums the costs of the calls that began on a day or later, of the sessions that the filter selects, by some of team,
// session, phase, persona, agent, model and day: the newest day first, then the sessions that were started last, and by name.
// Those of one session are in the order of its phases, and of the first call of each sum. An empty day is any. The filter's After
// and Limit are ignored.
func (d *DB) Usage(ctx context.Context, by []string, since string, f Filter) ([]Cost, error) {
	return read(ctx, d, func(t *Tx) ([]Cost, error) { return t.usage(by, since, f) })
}

func (t *Tx) usage(by []string, since string, f Filter) ([]Cost, error) {
	w, from := &where{}, `calls c`
	if f.Session != "" {
		w.add("c.namespace = ? and c.session = ?", f.Namespace, f.Session)
	} else {
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

// figures are the sums of a [Spending], in the order of its fields and of those of its Usage.
const figures = `count(case when ended_at is not null and (answer <> '' or tokens <> 0 or nano_usd <> 0) then 1 end),
	coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cache_read_tokens), 0),
	coalesce(sum(cache_write_tokens), 0), coalesce(sum(reasoning_tokens), 0), coalesce(sum(cache_write_1h_tokens), 0),
	coalesce(sum(web_searches), 0), coalesce(sum(nano_usd), 0), count(case when state = 'unsettled' then 1 end), ` + unsettledSums + `,
	count(case when state = 'begun' then 1 end), coalesce(sum(reserved_tokens), 0), coalesce(sum(reserved_nano_usd), 0)`

// Cost is what some calls have cost. A sum has only the keys by which it was grouped.
type Cost struct {
	Team    string `json:"team,omitempty"`
	Session string `json:"session,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Persona string `json:"persona,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Model   string `json:"model,omitempty"`
	Day     string `json:"day,omitempty"`
	Spending
}

// Spending is a sum of costs.
type Spending struct {
	// Calls is the number of calls that have ended and cost something, or have an answer, and Usage the known cost.
	Calls int        `json:"calls"`
	Usage cost.Usage `json:"usage" sql:"*"`
	// Tokens is the sum of all tokens.
	Tokens int64 `json:"tokens" sql:"-"`
	// Unsettled is an estimate for calls with unknown cost, and Reserved is what is reserved for calls in progress.
	Unsettled OpenCalls `json:"unsettled" sql:"unsettled_*"`
	Reserved  OpenCalls `json:"reserved" sql:"reserved_*"`
}

// OpenCalls are calls whose cost is not known, and what they may cost together.
type OpenCalls struct {
	Calls int `json:"calls"`
	cost.Amount
}

// Add returns the sum of both.
func (s Spending) Add(o Spending) Spending {
	return Spending{
		Calls: s.Calls + o.Calls, Usage: s.Usage.Add(o.Usage), Tokens: s.Tokens + o.Tokens,
		Unsettled: OpenCalls{s.Unsettled.Calls + o.Unsettled.Calls, s.Unsettled.Add(o.Unsettled.Amount)},
		Reserved:  OpenCalls{s.Reserved.Calls + o.Reserved.Calls, s.Reserved.Add(o.Reserved.Amount)},
	}
}

// CostKeys are the fields by which costs can be summed, in the order of a Cost.
var CostKeys = []string{"team", "session", "phase", "persona", "agent", "model", "day"}

// Key is the field for one of [CostKeys].
func (c *Cost) Key(name string) *string {
	return map[string]*string{
		"team": &c.Team, "session": &c.Session, "phase": &c.Phase, "persona": &c.Persona, "agent": &c.Agent, "model": &c.Model,
		"day": &c.Day,
	}[name]
}

// Costs sums the calls of a session by keys, as [DB.Usage] does.
func (d *DB) Costs(ctx context.Context, s session.Key, by ...string) ([]Cost, error) {
	return d.Usage(ctx, by, "", Filter{Namespace: s.Namespace, Session: s.Session})
}
