package state

import (
	"context"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// StatisticsKeys are the fields by which statistics can be grouped.
var StatisticsKeys = []string{"team", "phase", "persona", "agent", "model", "day"}

// Statistic is the results of the sessions of a group. The day is the day on which a session was started.
type Statistic struct {
	Team    string `json:"team,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Persona string `json:"persona,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Model   string `json:"model,omitempty"`
	Day     string `json:"day,omitempty"`
	// Sessions are known by team and day only: in other groups a session can be in several.
	Sessions    *SessionOutcomes   `json:"sessions,omitempty" sql:"-"`
	Assignments AssignmentOutcomes `json:"assignments" sql:"*"`
}

// SessionOutcomes is the results of sessions.
type SessionOutcomes struct {
	All       int `json:"all"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
	// Seconds is the total duration of the sessions that have ended.
	Seconds float64 `json:"seconds"`
	// Answers is the number of requests that people have answered, and WaitedSeconds the total time
	// that these waited.
	Answers       int     `json:"answers"`
	WaitedSeconds float64 `json:"waited_seconds"`
	// Approvals and ApprovalSeconds are the part of these that were approvals of phases; the others
	// were requests for help.
	Approvals       int     `json:"approvals"`
	ApprovalSeconds float64 `json:"approval_seconds"`
}

// SuccessRate is completed sessions divided by completed and failed sessions; zero if there are none.
func (o SessionOutcomes) SuccessRate() float64 { return part(o.Completed, o.Completed+o.Failed) }

// AssignmentOutcomes is the results of assignments that were at work.
type AssignmentOutcomes struct {
	All int `json:"all"`
	// Finished have their work, Failed have used up their rounds.
	Finished int `json:"finished"`
	Failed   int `json:"failed"`
	// Attempts counts all counted attempts, Failures those of them that failed.
	Attempts    int `json:"attempts"`
	Failures    int `json:"failures"`
	LostWorkers int `json:"lost_workers"`
}

// SuccessRate is finished assignments divided by finished and failed ones; zero if there are none.
func (o AssignmentOutcomes) SuccessRate() float64 { return part(o.Finished, o.Finished+o.Failed) }

// AttemptsEach is the average number of attempts of an assignment.
func (o AssignmentOutcomes) AttemptsEach() float64 { return part(o.Attempts, o.All) }

func part(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// Statistics are the results of the sessions that the filter selects, grouped by keys of [StatisticsKeys]: days newest first,
// the rest by name. The filter's After and Limit are ignored.
func (d *DB) Statistics(ctx context.Context, by []string, f Filter) ([]Statistic, error) {
	return read(ctx, d, func(t *Tx) ([]Statistic, error) {
		assignments, err := t.assignmentOutcomes(by, f)
		if err != nil || slices.ContainsFunc(by, func(key string) bool { return key != "team" && key != "day" }) {
			return assignments, err
		}
		of := map[[2]string]AssignmentOutcomes{}
		for _, a := range assignments {
			of[[2]string{a.Team, a.Day}] = a.Assignments
		}
		groups, err := t.sessionOutcomes(by, f)
		for i, g := range groups {
			groups[i].Assignments = of[[2]string{g.Team, g.Day}]
		}
		return groups, err
	})
}

// keyColumns lists the columns of all keys, which are empty for those by which is not grouped, and the columns by which is.
func keyColumns(all, by []string, column func(key string) string) (selected, groups string) {
	columns, names := make([]string, len(all)), make([]string, len(by))
	for i, key := range all {
		if columns[i] = "''"; slices.Contains(by, key) {
			columns[i] = column(key)
		}
	}
	for i, key := range by {
		names[i] = column(key)
	}
	return strings.Join(columns, ", "), strings.Join(names, ", ")
}

// grouped is keyColumns with the columns as a map, and with the end of a query: its groups are the newest day first, then by
// name. A query without groups has a row only if it finds something.
func grouped(all, by []string, of map[string]string) (selected, end string) {
	selected, groups := keyColumns(all, by, func(key string) string { return of[key] })
	if groups == "" {
		return selected, " having count(*) > 0"
	}
	order := make([]string, 0, len(by))
	for _, key := range by {
		if key == "day" {
			order = slices.Insert(order, 0, of[key]+" desc")
		} else {
			order = append(order, of[key])
		}
	}
	return selected, " group by " + groups + " order by " + strings.Join(order, ", ")
}

func (t *Tx) assignmentOutcomes(by []string, f Filter) ([]Statistic, error) {
	w := f.where()
	w.add("s.revision > 0 and o.attempts > 0 and o.state not in ('restored', 'supplied')") // other sessions and people did the rest
	selected, groups := grouped(StatisticsKeys, by, map[string]string{
		"team": "s.team", "phase": "o.phase", "persona": "o.persona", "agent": "o.agent", "model": "o.model", "day": t.day,
	})
	return query[Statistic](t, `select `+selected+`, count(*), count(case when o.state in ('completed', 'skipped') then 1 end),
			count(case when o.state in ('failed', 'help_needed') then 1 end), sum(o.attempts), sum(o.failures), sum(o.lost_workers)
		from sessions s join outcomes o on o.namespace = s.namespace and o.session = s.session where `+w.String()+groups, w.args...)
}

// sessionOutcomes are in groups by team and day only.
func (t *Tx) sessionOutcomes(by []string, f Filter) (all []Statistic, err error) {
	w := f.where()
	w.add("s.revision > 0")
	which := w.String()
	oneOf(w, "action", session.ForApproval.Rule().Actions)
	approves := w.conditions[len(w.conditions)-1]
	selected, groups := grouped([]string{"team", "day"}, by, map[string]string{"team": "s.team", "day": t.day})
	rows, err := query[struct {
		Team, Day string
		SessionOutcomes
	}](t, `select `+selected+`, count(*), count(case when s.status = 'completed' then 1 end),
			count(case when s.status = 'failed' then 1 end), count(case when s.status = 'cancelled' then 1 end),
			coalesce(sum(case when s.ended_at > s.started_at then s.ended_at - s.started_at end), 0) / 1e6,
			coalesce(sum(a.answers), 0), coalesce(sum(a.waited), 0) / 1e6, coalesce(sum(a.approvals), 0), coalesce(sum(a.approving), 0) / 1e6
		from sessions s left join (select namespace, session, count(*) as answers, sum(at - opened_at) as waited,
				count(case when `+approves+` then 1 end) as approvals, sum(case when `+approves+` then at - opened_at end) as approving
			from answers where at > opened_at group by namespace, session) a on a.namespace = s.namespace and a.session = s.session
		where `+which+groups, w.args...)
	for _, r := range rows {
		all = append(all, Statistic{Team: r.Team, Day: r.Day, Sessions: &r.SessionOutcomes})
	}
	return all, err
}
