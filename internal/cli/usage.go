package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/budget"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// usageKeys are the fields that costs can be grouped by.
var usageKeys = []string{"team", "session", "phase", "persona", "agent", "model", "day"}

// usageDocument is the document of `usage -o json`.
type usageDocument struct {
	// Session is the requested one; empty: all.
	Session string `json:"session,omitempty"`
	// Source is "store", or "temporal" if there is no store.
	Source string `json:"source"`
	// Since is the first day that counts, by UTC; empty: all do.
	Since string `json:"since,omitempty"`
	// By are the rows' keys.
	By    []string   `json:"by"`
	Rows  []usageRow `json:"rows"`
	Total spending   `json:"total"`
	// Budgets are those of the session that was requested.
	Budgets []budgetLine `json:"budgets,omitempty"`
}

// usageRow is what some calls have cost. It has the keys that were requested.
type usageRow struct {
	Team    string `json:"team,omitempty"`
	Session string `json:"session,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Persona string `json:"persona,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Model   string `json:"model,omitempty"`
	Day     string `json:"day,omitempty"`
	spending
}

// key is where a row has what it is summed up by.
func (r *usageRow) key(name string) *string {
	switch name {
	case "team":
		return &r.Team
	case "session":
		return &r.Session
	case "phase":
		return &r.Phase
	case "persona":
		return &r.Persona
	case "agent":
		return &r.Agent
	case "model":
		return &r.Model
	default:
		return &r.Day
	}
}

// spending is a sum of costs.
type spending struct {
	// Calls counts those whose cost is known. Without a store it is zero.
	Calls int        `json:"calls"`
	Usage cost.Usage `json:"usage"`
	// Tokens are all of them together. Without a store, Temporal may know
	// nothing else.
	Tokens int64 `json:"tokens"`
	// Unsettled is an estimate for calls with unknown cost.
	Unsettled unsettledCalls `json:"unsettled"`
	// Reserved is reserved for calls in progress.
	Reserved reservedCalls `json:"reserved"`
}

type unsettledCalls struct {
	Calls int        `json:"calls"`
	Usage cost.Usage `json:"usage"`
}

type reservedCalls struct {
	Calls int `json:"calls"`
	cost.Amount
}

// spent is the cost of calls that is known.
func spent(calls int, used cost.Usage) spending {
	return spending{Calls: calls, Usage: used, Tokens: used.Tokens()}
}

func (s spending) add(o spending) spending {
	return spending{
		Calls: s.Calls + o.Calls, Usage: s.Usage.Add(o.Usage), Tokens: s.Tokens + o.Tokens,
		Unsettled: unsettledCalls{s.Unsettled.Calls + o.Unsettled.Calls, s.Unsettled.Usage.Add(o.Unsettled.Usage)},
		Reserved:  reservedCalls{s.Reserved.Calls + o.Reserved.Calls, s.Reserved.Add(o.Reserved.Amount)},
	}
}

func newUsage(a *app) *cobra.Command {
	var since, by string
	cmd := &cobra.Command{
		Use:   "usage [SESSION]",
		Short: "Show what sessions have cost",
		Long: "Show the cost of a session by phase and persona, or of all sessions of the store, newest first. " +
			"A call counts on the UTC day on which its cost became known. UNSETTLED is an estimate and not part of other columns.\n\n" +
			"Without a store, the totals of each session in Temporal are shown, on the day on which it started.",
		Args: cmdline.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			doc := usageDocument{Session: strings.Join(args, ""), Rows: []usageRow{}}
			var err error
			if doc.By, err = parseBy(by, doc.Session != ""); err != nil {
				return err
			}
			if doc.Since, err = parseSince(since, a.env.Now()); err != nil {
				return err
			}
			return a.usage(cmd.Context(), doc)
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "count only costs since the day this long ago, like 7d or 12h (default: all)")
	cmd.Flags().StringVar(&by, "by", "", "group by one or more of "+strings.Join(usageKeys, ", ")+" (default: phase,persona of a session, session,team of all)")
	a.addSessionFlags(cmd, outputCSV)
	_ = cmd.RegisterFlagCompletionFunc("by", listOf(func(context.Context, []string) []string { return usageKeys }))
	return cmd
}

// parseBy reads --by.
func parseBy(by string, sess bool) ([]string, error) {
	switch {
	case by == "" && sess:
		return []string{"phase", "persona"}, nil
	case by == "":
		return []string{"session", "team"}, nil
	}
	var keys []string
	for key := range strings.SplitSeq(by, ",") {
		key = strings.TrimSpace(key)
		if !slices.Contains(usageKeys, key) || slices.Contains(keys, key) {
			return nil, usagef("--by: %q is not a list of distinct fields; use one or more of %s, separated by commas", textfmt.Shorten(by, 80), strings.Join(usageKeys, ", "))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

var daysPattern = regexp.MustCompile(`^([0-9]{1,5})d(.*)$`)

// parseSince reads --since: the day, by UTC, that was so long ago.
func parseSince(since string, now time.Time) (string, error) {
	if since == "" {
		return "", nil
	}
	ago, err := parseAgo(since)
	if err != nil {
		return "", usagef("--since: %q is not a duration like 7d, 12h or 1d12h", textfmt.Shorten(since, 80))
	}
	return budget.Date(now.Add(-ago)), nil
}

// parseAgo reads how long ago something was: days, a duration, or both.
func parseAgo(since string) (time.Duration, error) {
	rest, ago := since, time.Duration(0)
	if m := daysPattern.FindStringSubmatch(since); m != nil {
		days, _ := strconv.Atoi(m[1])
		rest, ago = cmp.Or(m[2], "0s"), time.Duration(days)*24*time.Hour
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, err
	}
	if ago+d <= 0 {
		return 0, errors.New("it is not in the past")
	}
	return ago + d, nil
}

// usage finds the costs, sums them up and prints them.
func (a *app) usage(ctx context.Context, doc usageDocument) error {
	s, err := a.findStore()
	if err != nil {
		return err
	}
	var costs []usageRow
	switch {
	case s == nil:
		doc.Source = "temporal"
		costs, err = a.temporalCosts(ctx, doc)
	case doc.Session != "":
		doc.Source = "store"
		costs, doc.Budgets, err = a.sessionCosts(ctx, doc.Session)
	default:
		doc.Source = "store"
		costs, err = a.storeCosts(ctx, s)
	}
	if err != nil {
		return err
	}
	doc.sum(costs)
	switch a.output {
	case outputJSON:
		return a.printJSON(doc)
	case outputCSV:
		return a.writeUsageCSV(doc)
	}
	a.writeUsage(doc)
	return nil
}

// sum adds costs up by the document's keys, in the order in which they come; days
// come newest first. Each cost is in one row, and in the total.
func (doc *usageDocument) sum(costs []usageRow) {
	at := map[usageRow]int{}
	for _, price := range costs {
		if price.Day != "" && price.Day < doc.Since {
			continue
		}
		var row usageRow
		for _, key := range doc.By {
			*row.key(key) = *price.key(key)
		}
		i, ok := at[row]
		if !ok {
			i = len(doc.Rows)
			at[row] = i
			doc.Rows = append(doc.Rows, row)
		}
		doc.Rows[i].spending = doc.Rows[i].add(price.spending)
		doc.Total = doc.Total.add(price.spending)
	}
	if slices.Contains(doc.By, "day") {
		slices.SortStableFunc(doc.Rows, func(x, y usageRow) int { return strings.Compare(y.Day, x.Day) })
	}
}

// refuseKeys refuses keys that the source does not know.
func refuseKeys(by []string, known ...string) error {
	for _, key := range by {
		if !slices.Contains(known, key) {
			return usagef("no store found, and Temporal alone has no costs by %s; give the store with --state-dir, or group by %s", key, strings.Join(known, ", "))
		}
	}
	return nil
}

// temporalCosts are what Temporal knows of costs.
func (a *app) temporalCosts(ctx context.Context, doc usageDocument) ([]usageRow, error) {
	if doc.Session != "" {
		return a.temporalSessionCosts(ctx, doc)
	}
	if err := refuseKeys(doc.By, "team", "session", "day"); err != nil {
		return nil, err
	}
	conn, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	known, err := visible(ctx, conn, allSessions, "")
	if err != nil {
		return nil, err
	}
	a.printErr("no store found: showing the totals in Temporal, on the day on which each session started; running sessions may have spent more")
	var costs []usageRow
	for _, l := range known {
		price := usageRow{Team: l.Team, Session: l.Session, Day: budget.Date(timeOf(l.StartedAt)), spending: spent(0, l.usage)}
		price.Tokens = l.Tokens
		costs = append(costs, price)
	}
	return costs, nil
}

// temporalSessionCosts are the costs of one session, from a worker or from Temporal.
func (a *app) temporalSessionCosts(ctx context.Context, doc usageDocument) ([]usageRow, error) {
	if err := refuseKeys(doc.By, "team", "session", "phase", "persona", "day"); err != nil {
		return nil, err
	}
	w, done, err := a.watch(ctx, doc.Session)
	if err != nil {
		return nil, err
	}
	defer done()
	v, err := w.Look(ctx)
	if err != nil {
		return nil, a.explainLook(ctx, w, err)
	}
	a.printErr("no store found: showing the last total in Temporal, on the day on which the session started")
	return statusCosts(v.Status, budget.Date(timeOf(v.StartedAt))), nil
}

// statusCosts are the costs of a status by assignments, and what it has beyond them.
func statusCosts(s session.Status, day string) []usageRow {
	var costs []usageRow
	add := func(phase, persona string, used cost.Usage) {
		if used != (cost.Usage{}) {
			costs = append(costs, usageRow{Team: s.Team, Session: s.Session, Phase: phase, Persona: persona, Day: day, spending: spent(0, used)})
		}
	}
	rest := s.Usage
	for _, p := range s.Phases {
		for _, as := range p.Assignments {
			add(p.Name, as.Persona, as.Usage)
			rest = rest.Minus(as.Usage)
		}
	}
	add("", "", rest)
	return costs
}

func (s spending) csv() []string {
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		fmt.Sprint(s.Calls), n(s.Usage.InputTokens), n(s.Usage.OutputTokens), n(s.Usage.CacheReadTokens), n(s.Usage.CacheWriteTokens),
		n(s.Usage.ReasoningTokens), n(s.Tokens), s.Usage.CostUSD.String(),
		fmt.Sprint(s.Unsettled.Calls), n(s.Unsettled.Usage.Tokens()), s.Unsettled.Usage.CostUSD.String(),
		fmt.Sprint(s.Reserved.Calls), n(s.Reserved.Tokens), s.Reserved.USD.String(),
	}
}
