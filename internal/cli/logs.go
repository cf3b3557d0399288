package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
)

// logsDocument is the document of `logs -o json`.
type logsDocument struct {
	Session string       `json:"session"`
	Logs    []attemptLog `json:"logs"`
}

// attemptLog is what one attempt printed.
type attemptLog struct {
	team.AssignmentID
	Round int `json:"round"`
	// Attempt counts from 1 within the round.
	Attempt int `json:"attempt"`
	// Status is completed, failed, or supplied where a person's files stand for
	// the work.
	Status team.State `json:"status"`
	// Category, Message and Output say why a failed attempt failed.
	Category team.Category `json:"category,omitempty"`
	Message  string        `json:"message,omitempty"`
	Output   string        `json:"output,omitempty"`
	// Agent worked; From is what the attempt started from: its input, the
	// files of the failed one before it, or its conversation.
	Agent string     `json:"agent,omitempty"`
	From  team.Start `json:"from,omitempty"`
	Usage team.Usage `json:"usage"`
	// Supplied: it was a person's files that were tried.
	Supplied bool `json:"supplied,omitempty"`
	// Summary says what a finished one has done.
	Summary string `json:"summary,omitempty"`
	// Changes is how the files that a failed attempt left differ from the input.
	Changes   string    `json:"changes,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// Log is the blob of the transcript, and Text its content; both are empty
	// for an attempt that left none.
	Log  team.Digest `json:"log"`
	Text string      `json:"text"`

	diff team.Digest
}

func newLogs(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "logs SESSION [PHASE/PERSONA]",
		Short: "Print what a session's agents printed",
		Long:  "Print the transcripts of a session's finished attempts, the failed ones too, from the store. PHASE or PHASE/PERSONA selects.",
		Args:  arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.logs(cmd.Context(), args[0], strings.Join(args[1:], ""))
		},
	}
	a.addNamespaceFlags(cmd)
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	cmd.ValidArgsFunction = a.completeAssignments
	return cmd
}

func (a *app) logs(ctx context.Context, session, selection string) error {
	s, key, err := a.stored(session)
	if err != nil {
		return err
	}
	e, err := s.Execution(key)
	if err != nil && !errors.Is(err, team.ErrNotFound) && !errors.Is(err, team.ErrCorrupt) {
		return err
	}
	records, err := s.Records(ctx, key)
	if err != nil {
		a.say("%s", err)
	}
	records = inOrder(records, e.Phases)
	if records, err = selectRecords(records, e, selection); err != nil {
		return err
	}
	doc := logsDocument{Session: session, Logs: []attemptLog{}}
	for _, r := range records {
		doc.Logs = append(doc.Logs, attemptsOf(r)...)
	}
	for i, l := range doc.Logs {
		if doc.Logs[i].Text, err = transcript(ctx, s, l.Log); err != nil {
			return err
		}
		if doc.Logs[i].Changes, err = transcript(ctx, s, l.diff); err != nil {
			return err
		}
	}
	if a.output == outputJSON {
		return a.printJSON(doc)
	}
	a.writeLogs(doc)
	return nil
}

// inOrder sorts records as their phases and personas are in the team file.
func inOrder(records []team.Record, phases []team.PhaseStatus) []team.Record {
	rank := map[team.AssignmentID]int{}
	for _, p := range phases {
		for _, as := range p.Assignments {
			rank[team.AssignmentID{Phase: p.Name, Persona: as.Persona}] = len(rank)
		}
	}
	slices.SortStableFunc(records, func(x, y team.Record) int { return rank[x.Assignment] - rank[y.Assignment] })
	return records
}

// selectRecords keeps the records of a phase or an assignment. An assignment
// that exists and has nothing recorded yet is no error.
func selectRecords(records []team.Record, e team.Execution, selection string) ([]team.Record, error) {
	if selection == "" {
		return records, nil
	}
	phase, persona, _ := strings.Cut(selection, "/")
	matches := func(id team.AssignmentID) bool {
		return id.Phase == phase && (persona == "" || id.Persona == persona)
	}
	var all []string
	known := false
	for _, p := range e.Phases {
		for _, as := range p.Assignments {
			id := team.AssignmentID{Phase: p.Name, Persona: as.Persona}
			all = append(all, id.String())
			known = known || matches(id)
		}
	}
	records = slices.DeleteFunc(records, func(r team.Record) bool { return !matches(r.Assignment) })
	if len(records) == 0 && !known {
		return nil, usagef("the session has no %s; it has %s", selection, strings.Join(all, ", "))
	}
	return records, nil
}

// attemptsOf lists a record's attempts, oldest first.
func attemptsOf(r team.Record) []attemptLog {
	var out []attemptLog
	for _, round := range r.Rounds {
		failed := team.Usage{}
		for _, at := range round.Attempts {
			failed = failed.Add(at.Usage)
			out = append(out, attemptLog{
				AssignmentID: r.Assignment, Round: round.Round, Attempt: at.Attempt, Status: team.Failed,
				Category: at.Failure.Category, Message: at.Failure.Message, Output: at.Failure.Output,
				Agent: at.Agent, From: at.From, Usage: at.Usage, Supplied: round.Supplied, diff: at.Diff,
				StartedAt: at.StartedAt, EndedAt: at.EndedAt, Log: at.Log,
			})
		}
		if res := round.Result; res != nil {
			l := attemptLog{
				AssignmentID: r.Assignment, Round: round.Round, Attempt: res.Attempts, Status: team.Completed,
				Agent: res.Agent, From: res.From, Usage: res.Usage.Minus(failed), Supplied: round.Supplied, Summary: res.Summary,
				StartedAt: res.StartedAt, EndedAt: res.EndedAt, Log: res.Log,
			}
			if round.Supplied {
				l.Status, l.Attempt = team.Supplied, 1
			}
			out = append(out, l)
		}
	}
	return out
}

func transcript(ctx context.Context, s *store.Store, log team.Digest) (string, error) {
	if log == "" {
		return "", nil
	}
	data, err := s.Blob(ctx, log)
	if errors.Is(err, team.ErrNotFound) || errors.Is(err, team.ErrCorrupt) {
		return fmt.Sprintf("(the transcript is lost: %s)", err), nil
	}
	return string(data), err
}

func (a *app) writeLogs(doc logsDocument) {
	if len(doc.Logs) == 0 {
		a.say("no attempt has finished yet; follow the session with `%s`", a.again("watch "+doc.Session))
		return
	}
	for i, l := range doc.Logs {
		if i > 0 {
			a.print("")
		}
		a.print("%s", a.paint.paint(bold, fmt.Sprintf("== %s, round %d, attempt %d: %s", l.AssignmentID, l.Round, l.Attempt, l.Status)))
		if l.Status == team.Failed {
			a.print("%s", a.paint.paint(red, fmt.Sprintf("%s: %s", l.Category, printable(l.Message))))
		}
		a.print("%s", a.paint.paint(dim, l.circumstances()))
		text := l.Text
		if a.env.IsTerminal(a.env.Stdout) {
			text = safeText(text)
		}
		if text = strings.TrimRight(text, "\n"); text != "" {
			a.print("%s", text)
		}
		if l.Output != "" && !strings.Contains(l.Text, strings.TrimSpace(l.Output)) {
			a.print("%s", strings.TrimRight(safeText(l.Output), "\n"))
		}
		if l.Changes != "" {
			a.print("%s\n%s", a.paint.paint(dim, "-- what it had changed"), strings.TrimRight(safeText(l.Changes), "\n"))
		}
	}
}

// circumstances says who worked, from what, for how long and at what cost.
func (l attemptLog) circumstances() string {
	text := span(l.EndedAt.Sub(l.StartedAt))
	switch {
	case l.Supplied && l.Summary != "":
		return printable(l.Summary) + ", " + text
	case l.Supplied:
		return "files that a person has supplied, " + text
	case l.Agent != "":
		text = l.Agent + ", " + text
	}
	switch l.From {
	case team.FromFiles:
		text += ", from the files of the attempt before"
	case team.FromConversation:
		text += ", going on with its conversation"
	case team.FromInput:
	}
	if l.Usage.Tokens() > 0 {
		text += fmt.Sprintf(", %s tokens%s", number(l.Usage.Tokens()), money(l.Usage))
	}
	return text
}
