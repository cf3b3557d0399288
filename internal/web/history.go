package web

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/terminal"
)

// historyPage is the content of the page of what sessions came to.
type historyPage struct {
	Team, Since string
	Total       HistoryRow
	Teams, Days []HistoryRow
	// Bars are the days as bars of their cost, oldest first.
	Bars []HistoryBar
	// More: there are older sessions than those that are counted.
	More    bool
	Counted int
	// By is the key of Costs; Groups are the keys that there are.
	By     string
	Groups []string
	Costs  []CostRow
}

// CostRow is what one persona, agent, model or phase has cost.
type CostRow struct {
	Name  string
	Usage cost.Usage
	// Share is its part of all costs, in percent.
	Share float64
}

// costGroups are the keys that costs are grouped by.
var costGroups = []string{"persona", "agent", "model", "phase"}

// HistoryRow sums sessions up.
type HistoryRow struct {
	Name                                            string
	Sessions, Completed, Failed, Cancelled, Waiting int
	Tokens                                          int64
	CostUSD                                         cost.USD
	// took has the durations of sessions that have ended.
	took []time.Duration
}

// Success is the part of the ended sessions that completed, in percent; negative: none has ended.
func (r HistoryRow) Success() int {
	ended := r.Completed + r.Failed
	if ended == 0 {
		return -1
	}
	return int(math.Round(float64(r.Completed) * 100 / float64(ended)))
}

// Median is the middle duration of ended sessions; empty: none has ended.
func (r HistoryRow) Median() string {
	if len(r.took) == 0 {
		return ""
	}
	slices.Sort(r.took)
	return terminal.Age(r.took[len(r.took)/2])
}

// HistoryBar is a day in the chart: places and sizes in percent.
type HistoryBar struct {
	X, Width, Y, Height float64
	Label               string
}

// historyCounted bounds how many sessions are summed up, newest first.
const historyCounted = 1000

func (s *site) history(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	content := historyPage{Team: strings.TrimSpace(q.Get("team")), Since: cmp.Or(q.Get("since"), "30d")}
	f := control.SessionFilter{Team: content.Team, Limit: historyCounted}
	if since, ok := sinceTimes[content.Since]; ok {
		f.Since = s.Now().Add(-since)
	}
	doc, err := s.Sessions.List(r.Context(), f)
	if err != nil {
		s.failed(w, r, err, "/history")
		return
	}
	content.sum(doc)
	content.Groups, content.By = costGroups, costGroups[0]
	if by := q.Get("by"); slices.Contains(costGroups, by) {
		content.By = by
	}
	filter := control.UsageFilter{By: []string{content.By}, Sessions: index.Filter{Since: f.Since}}
	if content.Team != "" {
		filter.Sessions.Teams = []string{content.Team}
	}
	if used, err := s.Money.Usage(r.Context(), filter); err == nil { // otherwise the person may not see all, or there is no store
		content.Costs = costRows(content.By, used)
	}
	s.show(w, r, http.StatusOK, page{View: "history", Title: "History", Tab: "history", Content: content})
}

// maxCostRows bounds the groups that are shown, the dearest first.
const maxCostRows = 50

func costRows(by string, used control.Usage) []CostRow {
	amount := func(u cost.Usage) float64 { return float64(u.CostUSD) }
	if used.Total.Usage.CostUSD == 0 {
		amount = func(u cost.Usage) float64 { return float64(u.Tokens()) }
	}
	var rows []CostRow
	for _, r := range used.Rows {
		rows = append(rows, CostRow{Name: *r.Key(by), Usage: r.Usage, Share: amount(r.Usage) / max(amount(used.Total.Usage), 1) * 100})
	}
	slices.SortStableFunc(rows, func(a, b CostRow) int { return cmp.Compare(b.Share, a.Share) })
	return rows[:min(len(rows), maxCostRows)]
}

// sum adds sessions up by team and by the day on which they started.
func (p *historyPage) sum(doc control.SessionList) {
	p.More, p.Counted = doc.More, len(doc.Sessions)
	teams, days := map[string]*HistoryRow{}, map[string]*HistoryRow{}
	row := func(rows map[string]*HistoryRow, name string) *HistoryRow {
		if rows[name] == nil {
			rows[name] = &HistoryRow{Name: name}
		}
		return rows[name]
	}
	for _, l := range doc.Sessions {
		day := "unknown"
		if l.StartedAt != nil {
			day = l.StartedAt.UTC().Format(time.DateOnly)
		}
		for _, sum := range []*HistoryRow{&p.Total, row(teams, l.Team), row(days, day)} {
			sum.add(l)
		}
	}
	for _, t := range teams {
		p.Teams = append(p.Teams, *t)
	}
	for _, d := range days {
		p.Days = append(p.Days, *d)
	}
	slices.SortFunc(p.Teams, func(a, b HistoryRow) int {
		return cmp.Or(cmp.Compare(b.CostUSD, a.CostUSD), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(p.Days, func(a, b HistoryRow) int { return cmp.Compare(b.Name, a.Name) })
	p.draw()
}

func (r *HistoryRow) add(l control.ListedSession) {
	r.Sessions++
	r.Tokens, r.CostUSD = r.Tokens+l.Tokens, r.CostUSD+l.CostUSD
	switch l.Status {
	case session.Completed:
		r.Completed++
	case session.Failed:
		r.Failed++
	case session.WasCancelled:
		r.Cancelled++
	case session.HelpIsNeeded, session.AwaitingApproval:
		r.Waiting++
	default:
	}
	if l.StartedAt != nil && l.ClosedAt != nil {
		r.took = append(r.took, l.ClosedAt.Sub(*l.StartedAt))
	}
}

// draw makes the bars: of money or, where nothing has cost any, of tokens.
func (p *historyPage) draw() {
	amount := func(r HistoryRow) float64 { return float64(r.CostUSD) }
	if p.Total.CostUSD == 0 {
		amount = func(r HistoryRow) float64 { return float64(r.Tokens) }
	}
	shown := p.Days[:min(len(p.Days), 60)]
	most := 0.0
	for _, d := range shown {
		most = max(most, amount(d))
	}
	if most == 0 {
		return
	}
	slot := 100 / float64(max(len(shown), 10))
	for i, d := range slices.Backward(shown) {
		height := amount(d) / most * 100
		p.Bars = append(p.Bars, HistoryBar{
			X: float64(len(shown)-1-i)*slot + slot*.1, Width: slot * .8, Y: 100 - height, Height: height,
			Label: d.Name + ": " + dollars(d.CostUSD) + ", " + short(d.Tokens) + " tokens",
		})
	}
}
