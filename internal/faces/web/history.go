package web

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// historyPage is the content of the page of what sessions came to.
type historyPage struct {
	filter
	Total HistoryRow
	// Teams and Days have the sessions' outcomes, and Rows those of assignments in groups by the field by.
	Teams, Days, Rows []HistoryRow
	// Groups are the keys of Rows that there are.
	Groups []string
	Chart  dayChart
	// Today is what the sessions that have started today have cost.
	Today cost.Usage
}

// historyGroups are the keys that the work of assignments is grouped by.
var historyGroups = []string{"persona", "agent", "model", "phase"}

// HistoryRow is what sessions, or the assignments of a group, came to.
type HistoryRow struct {
	Name string
	// URL shows the sessions of the row alone; empty: they cannot be selected.
	URL string
	state.SessionOutcomes
	Work  state.AssignmentOutcomes
	Usage cost.Usage
	// Share is its part of all costs, in percent.
	Share float64
}

// Ended counts the sessions that have.
func (r HistoryRow) Ended() int { return r.Completed + r.Failed + r.Cancelled }

// Success is the part of the sessions that completed or failed which completed, in percent.
func (r HistoryRow) Success() int { return int(r.SuccessRate()*100 + .5) }

// WorkSuccess is likewise of assignments.
func (r HistoryRow) WorkSuccess() int { return int(r.Work.SuccessRate()*100 + .5) }

// Took is how long a session that has ended took on average; empty: none has.
func (r HistoryRow) Took() string { return average(r.Seconds, r.Ended()) }

// Waited is how long a request waited for its answer on average; empty: none was answered.
func (r HistoryRow) Waited() string { return average(r.WaitedSeconds, r.Answers) }

// Approved is how long an approval of a phase waited on average; empty: there was none.
func (r HistoryRow) Approved() string { return average(r.ApprovalSeconds, r.Approvals) }

// Helped is how long another request waited on average; empty: there was none.
func (r HistoryRow) Helped() string {
	return average(r.WaitedSeconds-r.ApprovalSeconds, r.Answers-r.Approvals)
}

func average(seconds float64, n int) string {
	if n == 0 {
		return ""
	}
	return terminal.Age(time.Duration(seconds / float64(n) * float64(time.Second)))
}

// historyOf reads what a page of the history is asked for.
func historyOf(r *http.Request, now time.Time) (historyPage, control.HistoryFilter) {
	content := historyPage{filter: filterOf(r, "team", "text", "label", "since", "by", "day"), Groups: historyGroups}
	content.Set("since", cmp.Or(content.Get("since"), "30d"))
	f := control.HistoryFilter{
		Text: content.Get("text"), Teams: nonEmpty(content.Get("team")), Labels: nonEmpty(content.Get("label")),
		Since: content.since(now),
	}
	if now.Sub(f.Since) > 24*time.Hour { // whole days are found faster
		f.Since = f.Since.UTC().Truncate(24 * time.Hour)
	}
	if day, err := time.Parse(time.DateOnly, content.Get("day")); err == nil {
		f.Since, f.Until = day, day.AddDate(0, 0, 1)
	}
	return content, f
}

func (s *site) history(r *http.Request) (page, error) {
	ctx := r.Context()
	content, f := historyOf(r, s.Now())
	if !slices.Contains(historyGroups, content.Get("by")) {
		content.Set("by", historyGroups[0])
	}
	total, err := s.came(ctx, "", f)
	if err == nil && len(total) > 0 {
		content.Total = total[0]
	}
	for key, rows := range map[string]*[]HistoryRow{"team": &content.Teams, "day": &content.Days, content.Get("by"): &content.Rows} {
		if err == nil {
			*rows, err = s.came(ctx, key, f)
		}
	}
	for i, team := range content.Teams {
		content.Teams[i].URL = content.With("team", team.Name)
	}
	for i, day := range content.Days {
		if day.Name == s.Now().UTC().Format(time.DateOnly) {
			content.Today = day.Usage
		}
		content.Days[i].URL = content.With("day", day.Name)
	}
	content.Chart = chartOf(content.Days, content.Total)
	return page{View: "history", Title: "History", Content: content}, err
}

// csvKeys are the keys by which a table of the history can be downloaded.
var csvKeys = append([]string{"day", "team"}, historyGroups...)

// historyCSV is a table of the history, for spreadsheets.
func (s *site) historyCSV(r *http.Request) (page, error) {
	content, f := historyOf(r, s.Now())
	key := content.Get("by")
	if !slices.Contains(csvKeys, key) {
		return page{}, wrongInput("Table not found", fmt.Errorf("by is %q; use %s", key, strings.Join(csvKeys, ", ")))
	}
	rows, err := s.came(r.Context(), key, f)
	return page{File: &textFile{Name: "history-by-" + key + ".csv", Type: "text/csv", Text: csvOf(key, rows)}}, err
}

// csvOf has a line for each row of a table.
func csvOf(key string, rows []HistoryRow) string {
	var text strings.Builder
	out := csv.NewWriter(&text)
	_ = out.Write([]string{
		key, "sessions", "completed", "failed", "cancelled", "seconds", "answers", "waited_seconds", "assignments", "attempts",
		"failed_attempts",
		"usd", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens",
	}) // a builder does not fail
	for _, row := range rows {
		name := row.Name
		if strings.ContainsAny(name[:min(len(name), 1)], "=+-@\t\r") {
			name = "'" + name // no formula
		}
		values := []string{name}
		count := func(counts ...int64) {
			for _, n := range counts {
				values = append(values, strconv.FormatInt(n, 10))
			}
		}
		count(int64(row.All), int64(row.Completed), int64(row.Failed), int64(row.Cancelled), int64(row.Seconds))
		count(int64(row.Answers), int64(row.WaitedSeconds), int64(row.Work.All), int64(row.Work.Attempts), int64(row.Work.Failures))
		values = append(values, row.Usage.CostUSD.String())
		count(row.Usage.InputTokens, row.Usage.OutputTokens, row.Usage.CacheReadTokens, row.Usage.CacheWriteTokens)
		_ = out.Write(values)
	}
	out.Flush()
	return text.String()
}

// maxHistoryRows bounds the groups that are shown, the dearest first.
const maxHistoryRows = 60

// came is what sessions came to and have cost, in groups by a key; without one, all together. Days are
// the newest first, others the dearest.
func (s *site) came(ctx context.Context, key string, f control.HistoryFilter) ([]HistoryRow, error) {
	f.By = nil
	if key != "" {
		f.By = []string{key}
	}
	outcomes, err := s.Sessions.Statistics(ctx, f)
	if err != nil {
		return nil, err
	}
	used, err := s.Money.Usage(ctx, control.UsageFilter{HistoryFilter: f})
	if err != nil {
		return nil, err
	}
	rows, at := []HistoryRow{}, map[string]int{}
	row := func(name string) *HistoryRow {
		if _, ok := at[name]; !ok {
			at[name] = len(rows)
			rows = append(rows, HistoryRow{Name: name})
		}
		return &rows[at[name]]
	}
	for _, o := range outcomes.Groups {
		one := row(map[string]string{
			"team": o.Team, "day": o.Day, "persona": o.Persona, "agent": o.Agent, "model": o.Model,
			"phase": o.Phase,
		}[key])
		one.Work = o.Assignments
		if o.Sessions != nil {
			one.SessionOutcomes = *o.Sessions
		}
	}
	for _, u := range used.Rows {
		one := row(*u.Key(cmp.Or(key, "day")))
		one.Usage, one.Share = u.Usage, amountOf(u.Usage, used.Total.Usage)/max(amountOf(used.Total.Usage, used.Total.Usage), 1)*100
	}
	if key == "day" {
		slices.SortFunc(rows, func(a, b HistoryRow) int { return cmp.Compare(b.Name, a.Name) })
	} else {
		slices.SortStableFunc(rows, func(a, b HistoryRow) int {
			return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Name, b.Name))
		})
	}
	return rows[:min(len(rows), maxHistoryRows)], nil
}

// amountOf is money or, where nothing has cost any, tokens.
func amountOf(u, of cost.Usage) float64 {
	if of.CostUSD == 0 {
		return float64(u.Tokens())
	}
	return float64(u.CostUSD)
}
