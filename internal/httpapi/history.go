package httpapi

import (
	"context"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/index"
	"github.com/maestro-hive/maestro/internal/session"
)

// HistoryInput selects sessions of the store. It is exported because huma fills no other embedded type.
type HistoryInput struct {
	Team   []string  `query:"team" maxItems:"100" doc:"only sessions of these teams"`
	Status []string  `query:"status" maxItems:"20" doc:"only sessions in these states"`
	Since  time.Time `query:"since" doc:"only sessions that started at this time or later"`
	Until  time.Time `query:"until" doc:"only sessions that started before this time"`
	Text   string    `query:"text" maxLength:"200" doc:"only sessions whose id or requirement has this text"`
	By     string    `query:"by" maxLength:"200" doc:"fields to group by, separated by commas"`
}

func (in *HistoryInput) filter() index.Filter {
	f := index.Filter{Teams: in.Team, Since: in.Since, Until: in.Until, Text: in.Text}
	for _, state := range in.Status {
		f.Status = append(f.Status, session.State(state))
	}
	return f
}

// by are the fields to group by.
func (in *HistoryInput) by(usual string) []string {
	if in.By == "" {
		in.By = usual
	}
	return strings.Split(in.By, ",")
}

// usageInput selects costs.
type usageInput struct {
	HistoryInput
	From string `query:"from" maxLength:"10" doc:"only costs of this day, by UTC, and later, like 2026-11-21"`
}

// statistics is what came of sessions.
type statistics struct {
	By     []string          `json:"by"`
	Groups []index.Statistic `json:"groups"`
}

func history(api huma.API, s control.Sessions, m control.Money) {
	register(api, operation("GET /statistics", "read-statistics", "Read what came of sessions, in groups by team, persona, agent, model or day"),
		func(ctx context.Context, in *HistoryInput) (statistics, error) {
			by := in.by("team")
			groups, err := s.Statistics(ctx, by, in.filter())
			return statistics{by, append([]index.Statistic{}, groups...)}, err
		})
	register(api, operation("GET /usage", "read-usage", "Add up what sessions have cost, in groups by team, session, phase, persona, agent, model or day"),
		func(ctx context.Context, in *usageInput) (control.Usage, error) {
			return m.Usage(ctx, control.UsageFilter{By: in.by("team"), Since: in.From, Sessions: in.filter()})
		})
}
