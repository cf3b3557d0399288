package httpapi

import (
	"cmp"
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/state"
	"github.com/maestro-hive/maestro/internal/usage"
)

// HistoryInput selects sessions of the store. It is exported because huma fills no other embedded type.
type HistoryInput struct {
	Team   []string  `query:"team" maxItems:"100" doc:"only sessions of these teams"`
	Status []string  `query:"status" maxItems:"20" doc:"only sessions in these states"`
	Since  time.Time `query:"since" doc:"only sessions that started at this time or later"`
	Until  time.Time `query:"until" doc:"only sessions that started before this time"`
	Label  []string  `query:"label,explode" maxItems:"16" doc:"only sessions with this label, as KEY=VALUE; may be given several times"`
	Text   string    `query:"text" maxLength:"200" doc:"only sessions whose id or requirement has this text"`
	By     string    `query:"by" maxLength:"200" doc:"fields to group by, separated by commas"`
}

func (in *HistoryInput) filter() (state.Filter, error) {
	labels, err := control.ParseLabels(in.Label)
	f := state.Filter{Teams: in.Team, Since: in.Since, Until: in.Until, Labels: labels, Text: in.Text}
	for _, state := range in.Status {
		f.Status = append(f.Status, session.State(state))
	}
	return f, err
}

// fieldsOf are the fields to group by.
func fieldsOf(by, usual string) []string { return strings.Split(cmp.Or(by, usual), ",") }

// CostsInput selects costs, and says how they are written. It is exported because huma fills no other
// embedded type.
type CostsInput struct {
	From   string `query:"from" maxLength:"10" doc:"only costs of this day, by UTC, and later, like 2026-11-21"`
	Format string `query:"format" enum:"json,csv" doc:"the format; left out: that of Accept, otherwise JSON"`
	Accept string `header:"Accept" maxLength:"1000" hidden:"true"`
}

func (in *CostsInput) csv() bool {
	return in.Format == "csv" || in.Format == "" && strings.HasPrefix(in.Accept, csvType)
}

// usageInput selects costs of many sessions.
type usageInput struct {
	HistoryInput
	CostsInput
}

// sessionUsageInput selects costs of one session.
type sessionUsageInput struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	By      string `query:"by" maxLength:"200" doc:"fields to group by, separated by commas"`
	CostsInput
}

const csvType = "text/csv"

// statistics is what came of sessions.
type statistics struct {
	By     []string          `json:"by"`
	Groups []state.Statistic `json:"groups"`
}

func history(api huma.API, s control.Sessions, m control.Money) {
	register(api, operation("GET /statistics", "read-statistics", "Read what came of sessions, in groups by team, persona, agent, model or day"),
		func(ctx context.Context, in *HistoryInput) (statistics, error) {
			by := fieldsOf(in.By, "team")
			f, err := in.filter()
			if err != nil {
				return statistics{}, err
			}
			groups, err := s.Statistics(ctx, by, f)
			return statistics{by, append([]state.Statistic{}, groups...)}, err
		})
	registerCosts(api, operation("GET /usage", "read-usage", "Add up what sessions have cost, in groups by team, session, phase, persona, agent, model or day"),
		func(ctx context.Context, in *usageInput) (costs, error) {
			by := fieldsOf(in.By, "team")
			f, err := in.filter()
			if err != nil {
				return costs{}, err
			}
			sums, err := m.Usage(ctx, control.UsageFilter{By: by, Since: in.From, Sessions: f})
			return costs{sums, by, in.csv()}, err
		})
	registerCosts(api, operation("GET /sessions/{session}/usage", "read-session-usage", "Add up what a session has cost, in groups by phase, persona, agent, model or day"),
		func(ctx context.Context, in *sessionUsageInput) (costs, error) {
			by := fieldsOf(in.By, "phase,persona")
			sums, err := m.SessionUsage(ctx, in.Session, by, in.From)
			return costs{sums, by, in.csv()}, err
		})
}

// costs are sums of costs, and how they are written.
type costs struct {
	control.Usage
	by  []string
	csv bool
}

// registerCosts adds an operation whose answer is a document or a table.
func registerCosts[I any](api huma.API, op huma.Operation, f func(context.Context, *I) (costs, error)) {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[control.Usage](), true, "")
	op.Responses = map[string]*huma.Response{"200": {
		Description: "OK",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: schema}, csvType: {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	huma.Register(api, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		sums, err := f(ctx, in)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			if sums.csv {
				hctx.SetHeader("Content-Type", csvType)
				_ = usage.WriteCSV(hctx.BodyWriter(), sums.by, sums.Rows) // nobody reads on
				return
			}
			hctx.SetHeader("Content-Type", "application/json")
			_ = api.Marshal(hctx.BodyWriter(), "application/json", sums.Usage)
		}}, nil
	})
}
