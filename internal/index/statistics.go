package index

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/session"
)

// StatisticsKeys are the fields that statistics can be grouped by.
var StatisticsKeys = []string{"team", "phase", "persona", "agent", "model", "day"}

// Statistic is the results of the sessions of a group. The day is the day on which a session was
// started.
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

// SuccessRate is completed sessions divided by completed and failed sessions; zero if there are
// none.
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
	switch name {
	case "team":
		return &s.Team
	case "phase":
		return &s.Phase
	case "persona":
		return &s.Persona
	case "agent":
		return &s.Agent
	case "model":
		return &s.Model
	default:
		return &s.Day
	}
}

// Statistics are the results of the sessions that the filter selects, grouped by keys of
// [StatisticsKeys]: days newest first, the rest by name. The filter's After and Limit are ignored.
func (x *Index) Statistics(ctx context.Context, by []string, f Filter) ([]Statistic, error) {
	for _, key := range by {
		if !slices.Contains(StatisticsKeys, key) {
			return nil, fmt.Errorf("statistics cannot be grouped by %.40q", key)
		}
	}
	var groups map[Statistic]*Statistic
	err := x.use(ctx, func(db *sql.DB) error {
		groups = map[Statistic]*Statistic{}
		if err := assignmentOutcomes(ctx, db, by, f, groups); err != nil {
			return err
		}
		if slices.ContainsFunc(by, func(key string) bool { return key != "team" && key != "day" }) {
			return nil
		}
		return sessionOutcomes(ctx, db, by, f, groups)
	})
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	out := make([]Statistic, 0, len(groups))
	for _, s := range groups {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Statistic) int {
		order := strings.Compare(b.Day, a.Day)
		for _, key := range by {
			order = cmp.Or(order, strings.Compare(*a.key(key), *b.key(key)))
		}
		return order
	})
	return out, nil
}

// groupOf reads the keys of a row and returns its group.
func groupOf(row *values, by []string, groups map[Statistic]*Statistic) *Statistic {
	var name Statistic
	for _, key := range by {
		*name.key(key) = row.text()
	}
	s, ok := groups[name]
	if !ok {
		of := name
		s = &of
		groups[name] = s
	}
	return s
}

func assignmentOutcomes(ctx context.Context, db *sql.DB, by []string, f Filter, groups map[Statistic]*Statistic) error {
	g := f.grouping(by)
	g.where.add("f.kind = ?", worked)
	return each(ctx, db, g.query(outcomes), g.where.arguments, func(row *values) error {
		row.integer() // the kind
		o := &groupOf(row, by, groups).Assignments
		for _, n := range []*int{&o.All, &o.Finished, &o.Failed, &o.Attempts, &o.Failures, &o.LostWorkers} {
			*n = int(row.integer())
		}
		return nil
	})
}

func sessionOutcomes(ctx context.Context, db *sql.DB, by []string, f Filter, groups map[Statistic]*Statistic) error {
	c := f.sessions()
	c.add("s.listed = 1")
	keys := ""
	if len(by) > 0 {
		keys = columns(by, "s.", "") + ", "
	}
	query := "SELECT " + keys + "s.status, count(*), sum(iif(s.started <> ?1 AND s.closed > s.started, (s.closed - s.started) / 1000, 0)), sum(s.answers), sum(s.waited / 1000), sum(s.approvals), sum(s.approving / 1000)" +
		" FROM sessions AS s WHERE " + c.String() + " GROUP BY " + keys + "s.status"
	return each(ctx, db, query, append([]any{int64(never)}, c.arguments...), func(row *values) error {
		s := groupOf(row, by, groups)
		if s.Sessions == nil {
			s.Sessions = &SessionOutcomes{}
		}
		o := s.Sessions
		status, n := session.State(row.text()), int(row.integer())
		o.All += n
		switch status { //nolint:exhaustive // the others have not ended
		case session.Completed:
			o.Completed += n
		case session.Failed:
			o.Failed += n
		case session.WasCancelled:
			o.Cancelled += n
		}
		o.Seconds += float64(row.integer()) / 1e6
		o.Answers += int(row.integer())
		o.WaitedSeconds += float64(row.integer()) / 1e6
		o.Approvals += int(row.integer())
		o.ApprovalSeconds += float64(row.integer()) / 1e6
		return nil
	})
}
