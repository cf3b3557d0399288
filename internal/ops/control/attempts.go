package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
)

// Attempts are the attempts of a session's assignments.
type Attempts struct{ *Base }

// Attempt is one attempt of an assignment.
type Attempt struct {
	AttemptRef
	// Status is completed, failed, running, waiting, or supplied if a person supplied the files.
	Status session.State `json:"status"`
	// Category, Message and Output describe why a failed attempt failed.
	Category failures.Category `json:"category,omitempty"`
	Message  string            `json:"message,omitempty"`
	Output   string            `json:"output,omitempty"`
	// Agent ran the attempt. From is what it started from: the assignment's input, or the
	// files or the conversation of the failed attempt before.
	Agent string         `json:"agent,omitempty"`
	From  failures.Start `json:"from,omitempty"`
	Usage cost.Usage     `json:"usage"`
	// Supplied: the attempt checked a person's files.
	Supplied bool `json:"supplied,omitempty"`
	// Summary and Decisions are the result of a finished attempt; Decisions by name.
	Summary   string            `json:"summary,omitempty"`
	Decisions map[string]string `json:"decisions,omitempty"`
	StartedAt time.Time         `json:"started_at"`
	// EndedAt is null for an attempt that has not ended.
	EndedAt *time.Time `json:"ended_at"`
	// WaitedSeconds is the part of the time in which it waited for a budget, its provider, its host or others.
	WaitedSeconds float64 `json:"waited_seconds,omitzero"`
	// Log is the blob of the transcript; empty for an attempt without one.
	Log spec.Digest `json:"log"`
	// Diff is the blob of the difference of a failed attempt's files from the input.
	Diff spec.Digest `json:"-"`
	// Again: the assignment has more than one pass.
	Again bool `json:"again,omitempty"`
}

// Ended is when the attempt ended; zero: it has not.
func (a Attempt) Ended() time.Time { return timeOf(a.EndedAt) }

// Worked is the time at work in the attempt, until now if it has not ended.
func (a Attempt) Worked(now time.Time) time.Duration {
	return max(cmp.Or(a.Ended(), now).Sub(a.StartedAt)-time.Duration(a.WaitedSeconds*float64(time.Second)), 0)
}

// Work is the attempts of a session's assignments, and the answers of people.
type Work struct {
	Session string `json:"session"`
	// Phases are the team's, without their texts.
	Phases []spec.Phase `json:"phases"`
	// Attempts are in the order of the phases, the oldest first.
	Attempts []Attempt `json:"attempts"`
	// Answers are the answers of people, oldest first.
	Answers []session.Answer `json:"answers"`
	// Records are the assignments', and Budgets the session's.
	Records map[spec.AssignmentID]session.Record `json:"-"`
	Budgets []budget.Budget                      `json:"-"`
	// Requirement is the whole requirement of the session; empty: it cannot be read.
	Requirement string `json:"-"`
	// Checkpoint is the session's newest one, and Interventions are as in [sessionstatus.Session].
	Checkpoint    session.Checkpoint           `json:"-"`
	Interventions []sessionstatus.Intervention `json:"-"`
	Damage
}

// Work lists the attempts of a session's assignments. Data that cannot be read is left out, and
// reported as damage.
func (a Attempts) Work(ctx context.Context, sessionID string) (Work, error) {
	doc := Work{
		Session: sessionID, Phases: []spec.Phase{}, Attempts: []Attempt{}, Answers: []session.Answer{},
		Records: map[spec.AssignmentID]session.Record{},
	}
	s, key, err := a.InStore(ctx, sessionID)
	if err != nil {
		return doc, err
	}
	k, err := a.keptTeam(ctx, sessionID)
	if err == nil {
		doc.Phases, doc.Damage, doc.Requirement = k.team.Outline().Phases, k.Damage, k.Requirement
		doc.Answers = append(doc.Answers, k.Answers...)
	}
	records, err := s.State.Records(ctx, key)
	if err != nil {
		doc.Damage.Damage = err.Error()
	}
	rank := map[string]int{}
	for i, p := range doc.Phases {
		rank[p.Name] = i
	}
	slices.SortStableFunc(records, func(x, y session.Record) int { return rank[x.Assignment.Phase] - rank[y.Assignment.Phase] })
	for _, r := range records {
		doc.Records[r.Assignment] = r
		for _, at := range attemptsOf(r) {
			at.Agent = cmp.Or(at.Agent, k.team.Personas[at.Persona].Agent)
			doc.Attempts = append(doc.Attempts, at)
		}
	}
	account, err := s.State.Account(ctx, key)
	if err != nil {
		return doc, err
	}
	doc.Budgets = ownBudgets(account.Budgets)
	doc.Checkpoint, doc.Interventions = k.Checkpoint, sessionstatus.InterventionsOf(k.Checkpoint, account.Raises)
	return doc, nil
}

// AttemptsOf lists a record's finished attempts, oldest first.
func AttemptsOf(r session.Record) []Attempt {
	return slices.DeleteFunc(attemptsOf(r), func(a Attempt) bool { return a.Status == session.Running })
}

// attemptsOf lists a record's attempts, oldest first.
func attemptsOf(r session.Record) []Attempt {
	var out []Attempt
	for _, round := range r.Rounds {
		ref := func(n int) AttemptRef { return AttemptRef{r.Assignment, round.Pass, round.Round, n} }
		first, failed := len(out), cost.Usage{}
		for _, at := range round.Attempts {
			failed = failed.Add(at.Usage)
			out = append(out, Attempt{
				AttemptRef: ref(at.Attempt), Status: session.Failed, Category: at.Failure.Category, Message: at.Failure.Message,
				Output: at.Failure.Output,
				Agent:  at.Agent, From: at.From, Usage: at.Usage, StartedAt: at.StartedAt, EndedAt: &at.EndedAt, Log: at.Log,
				Supplied: round.Supplied, Diff: at.Diff,
			})
		}
		switch res := round.Result; {
		case res != nil:
			l := Attempt{
				AttemptRef: ref(res.Attempts), Status: session.Completed, Agent: res.Agent, From: res.From, Usage: res.Usage.Minus(failed),
				Summary: res.Summary, Decisions: res.Decisions, StartedAt: res.StartedAt, EndedAt: &res.EndedAt, Log: res.Log,
				Supplied: round.Supplied,
			}
			if round.Supplied {
				l.Status, l.Attempt = session.Supplied, 1
			}
			out = append(out, l)
		case round.State() == session.Running && round.AtWork && !round.AttemptAt.IsZero():
			out = append(out, Attempt{
				AttemptRef: ref(len(round.Attempts) + 1), Status: session.Running, Agent: round.Agent,
				Usage: round.Spent, StartedAt: round.AttemptAt,
			})
		}
		for j := first; j < len(out); j++ {
			for _, p := range round.PausesIn(out[j].StartedAt, cmp.Or(out[j].Ended(), time.Unix(1<<40, 0))) {
				out[j].WaitedSeconds += p.To.Sub(p.From).Seconds()
			}
			out[j].Again = r.Rounds[len(r.Rounds)-1].Pass > 1
		}
	}
	return out
}

// begun is the attempt of a record that has begun and not ended. It is at work, or waits.
func begun(r session.Record) (Attempt, bool) {
	if len(r.Rounds) == 0 {
		return Attempt{}, false
	}
	last := r.Rounds[len(r.Rounds)-1]
	return Attempt{
		AttemptRef: AttemptRef{r.Assignment, last.Pass, last.Round, len(last.Attempts) + 1}, Status: last.State(), Agent: last.Agent,
		Usage: last.Spent, StartedAt: last.AttemptAt, Again: last.Pass > 1,
	}, !last.AttemptAt.IsZero() && last.Result == nil && !last.GaveUp && !last.Stale()
}

// maxOutputSoFar limits how much output of an attempt in progress is read, in bytes.
const maxOutputSoFar = 16 << 20

// Transcript is the output of an attempt, also of one in progress. known is false if the output is
// not available: the attempt has none, or runs on another host.
func (a Attempts) Transcript(ctx context.Context, sessionID string, at Attempt) (text string, known bool, err error) {
	_, key, err := a.InStore(ctx, sessionID)
	if err != nil {
		return "", false, err
	}
	if at.Status == session.Running {
		f, err := a.LiveLogs(ctx).open(key, at)
		if errors.Is(err, fs.ErrNotExist) {
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		data, err := io.ReadAll(io.LimitReader(f, maxOutputSoFar))
		return string(data), true, errors.Join(err, f.Close())
	}
	text, err = a.orLost(ctx, at.Log)
	return text, err == nil && at.Log != "", err
}

// AttemptLog is the texts of an attempt.
type AttemptLog struct {
	// Changes is the difference of a failed attempt's files from the input.
	Changes string `json:"changes,omitempty"`
	// Text is the content of the transcript; empty for an attempt that left none.
	Text string `json:"text"`
}

// Log has the texts of a finished attempt, or the reasons why they cannot be read.
func (a Attempts) Log(ctx context.Context, in AttemptInput) (l AttemptLog, err error) {
	found, err := a.find(ctx, in)
	if err != nil {
		return l, err
	}
	if found.EndedAt == nil {
		return l, notFoundf("attempt %s has not ended; its output so far is its transcript", in.ref())
	}
	if l.Text, err = a.orLost(ctx, found.Log); err == nil {
		l.Changes, err = a.orLost(ctx, found.Diff)
	}
	return l, err
}

// orLost reads a text for display. If it cannot be read, the result is the reason.
func (a Attempts) orLost(ctx context.Context, name spec.Digest) (string, error) {
	if name == "" {
		return "", nil
	}
	data, err := a.Store.Content.Blob(ctx, name)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		return fmt.Sprintf("(the text is lost: %s)", textfmt.Shorten(err.Error(), 200)), nil
	}
	return string(data), err
}
