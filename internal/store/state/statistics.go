package state

import (
	"context"
	"database/sql"
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
	Sessions    *SessionOutcomes   `json:"sessions,omitempty"`
	Assignments AssignmentOutcomes `json:"assignments"`
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

// key is the field of one of [StatisticsKeys].
func (s *Statistic) key(name string) *string {
	return map[string]*string{
		"team": &s.Team, "phase": &s.Phase, "persona": &s.Persona, "agent": &s.Agent, "model": &s.Model,
		"day": &s.Day,
	}[name]
}

// Statistics are the results of the sessions that the filter selects, grouped by keys of [StatisticsKeys]: days newest first,
// the rest by name. The filter's After and Limit are ignored.
func (d *DB) Statistics(ctx context.Context, by []string, f Filter) (out []Statistic, err error) {
	groups := map[Statistic]*Statistic{}
	err = d.Read(ctx, func(t *Tx) error {
		clear(groups)
		if err := t.assignmentOutcomes(by, f, groups); err != nil {
			return err
		}
		if slices.ContainsFunc(by, func(key string) bool { return key != "team" && key != "day" }) {
			return nil
		}
		return t.sessionOutcomes(by, f, groups)
	})
	if err != nil {
		return nil, err
	}
	out = make([]Statistic, 0, len(groups))
	for _, s := range groups {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Statistic) int {
		if order := strings.Compare(b.Day, a.Day); order != 0 {
			return order
		}
		for _, key := range by {
			if order := strings.Compare(*a.key(key), *b.key(key)); order != 0 {
				return order
			}
		}
		return 0
	})
	return out, nil
}

// group adds the fields of keys to a row's, and returns the group of the row once it is read.
func group(by []string, groups map[Statistic]*Statistic, fields ...any) ([]any, func() *Statistic) {
	var name Statistic
	for _, key := range by {
		fields = append(fields, name.key(key))
	}
	return fields, func() *Statistic {
		s, ok := groups[name]
		if !ok {
			of := name
			s = &of
			groups[name] = s
		}
		return s
	}
}

// grouped lists columns to select and to group by; both are empty without keys.
func (t *Tx) grouped(by []string, of map[string]string) (selected, groupBy string) {
	if len(by) == 0 {
		return "", ""
	}
	names := make([]string, len(by))
	for i, key := range by {
		names[i] = of[key]
	}
	list := strings.Join(names, ", ")
	return ", " + list, " group by " + list
}

func (t *Tx) assignmentOutcomes(by []string, f Filter, groups map[Statistic]*Statistic) error {
	w := f.where()
	w.add("o.attempts > 0 and o.state not in ('restored', 'supplied')") // other sessions and people did the rest
	selected, groupBy := t.grouped(by, map[string]string{
		"team": "s.team", "phase": "o.phase", "persona": "o.persona", "agent": "o.agent", "model": "o.model", "day": t.day,
	})
	return t.each(func(r *sql.Rows) error {
		var o AssignmentOutcomes
		fields, of := group(by, groups, &o.All, &o.Finished, &o.Failed, &o.Attempts, &o.Failures, &o.LostWorkers)
		if err := r.Scan(fields...); err != nil {
			return err
		}
		if o.All > 0 {
			of().Assignments = o
		}
		return nil
	}, `select count(*), count(case when o.state in ('completed', 'restored', 'supplied', 'skipped') then 1 end),
			count(case when o.state in ('failed', 'help_needed') then 1 end),
			coalesce(sum(o.attempts), 0), coalesce(sum(o.failures), 0), coalesce(sum(o.lost_workers), 0)`+selected+`
		from sessions s join outcomes o on o.namespace = s.namespace and o.session = s.session where `+w.String()+groupBy, w.args...)
}

func (t *Tx) sessionOutcomes(by []string, f Filter, groups map[Statistic]*Statistic) error {
	w := f.where()
	w.add("s.revision > 0")
	selected, groupBy := t.grouped(by, map[string]string{"team": "s.team", "day": t.day})
	err := t.each(func(r *sql.Rows) error {
		var o SessionOutcomes
		var micros int64
		fields, of := group(by, groups, &o.All, &o.Completed, &o.Failed, &o.Cancelled, &micros)
		if err := r.Scan(fields...); err != nil {
			return err
		}
		if o.Seconds = float64(micros) / 1e6; o.All > 0 {
			of().Sessions = &o
		}
		return nil
	}, `select count(*), count(case when s.status = 'completed' then 1 end), count(case when s.status = 'failed' then 1 end),
			count(case when s.status = 'cancelled' then 1 end), coalesce(sum(case when s.ended_at > s.started_at then s.ended_at - s.started_at else 0 end), 0)`+selected+`
		from sessions s where `+w.String()+groupBy, w.args...)
	if err != nil {
		return err
	}
	w = f.where()
	oneOf(w, "a.action", session.ForApproval.Rule().Actions)
	approvals := w.conditions[len(w.conditions)-1]
	w.conditions = w.conditions[:len(w.conditions)-1]
	return t.each(func(r *sql.Rows) error {
		var answers, approved int
		var waited, approving int64
		fields, of := group(by, groups, &answers, &waited, &approved, &approving)
		if err := r.Scan(fields...); err != nil {
			return err
		}
		if answers > 0 {
			o := of().Sessions
			o.Answers, o.WaitedSeconds, o.Approvals, o.ApprovalSeconds = answers, float64(waited)/1e6, approved, float64(approving)/1e6
		}
		return nil
	}, `select count(*), coalesce(sum(a.at - a.opened_at), 0), count(case when `+approvals+` then 1 end),
			coalesce(sum(case when `+approvals+` then a.at - a.opened_at else 0 end), 0)`+selected+`
		from sessions s join answers a on a.namespace = s.namespace and a.session = s.session
		where `+w.String()+` and s.revision > 0 and a.at > a.opened_at`+groupBy, w.args...)
}
