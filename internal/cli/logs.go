package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/transcript"
)

// logsDocument is the document of `logs -o json`.
type logsDocument struct {
	Session string       `json:"session"`
	Logs    []attemptLog `json:"logs"`
}

// attemptLog is the transcript of one attempt.
type attemptLog struct {
	spec.AssignmentID
	// Pass counts from 1 how often the assignment was started over: because its work was sent
	// back, a person chose retry, or its inputs changed. Rounds count from 1 in each pass.
	Pass  int `json:"pass"`
	Round int `json:"round"`
	// Attempt counts from 1 within the round.
	Attempt int `json:"attempt"`
	// Status is completed, failed, or supplied if a person supplied the files.
	Status session.State `json:"status"`
	// Category, Message and Output say why a failed attempt failed.
	Category failures.Category `json:"category,omitempty"`
	Message  string            `json:"message,omitempty"`
	Output   string            `json:"output,omitempty"`
	// Agent ran the attempt. From is what it started from: the assignment's input, or the
	// files or the conversation of the failed attempt before.
	Agent string         `json:"agent,omitempty"`
	From  failures.Start `json:"from,omitempty"`
	Usage cost.Usage     `json:"usage"`
	// Supplied: a person's files were checked.
	Supplied bool `json:"supplied,omitempty"`
	// Summary and Decisions are the result of a finished attempt; Decisions by name.
	Summary   string            `json:"summary,omitempty"`
	Decisions map[string]string `json:"decisions,omitempty"`
	// Changes is the difference of a failed attempt's files from the input.
	Changes   string    `json:"changes,omitempty"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	// Log is the blob of the transcript, and Text its content; both are empty
	// for an attempt that left none.
	Log  spec.Digest `json:"log"`
	Text string      `json:"text"`

	diff spec.Digest
	// again: there is more than one pass.
	again bool
}

// logsCommand is `logs`.
type logsCommand struct {
	*console
	*connector
	session string
	// selection is PHASE, PHASE/PERSONA or empty.
	selection string
	follow    bool
	// tail is how many attempts are printed at most, the newest; negative: all.
	tail int
	// since leaves out what ended longer ago; zero: nothing.
	since time.Duration
	// full: every item of a transcript is printed whole.
	full bool
}

func logsCommandOf(a *app) logsCommand {
	return logsCommand{console: a.console, connector: a.connector, tail: -1}
}

func newLogs(a *app) *cobra.Command {
	c := logsCommandOf(a)
	cmd := &cobra.Command{
		Use:   "logs SESSION [PHASE/PERSONA]",
		Short: "Print or follow the output of a session's agents",
		Long: "Print the transcripts of a session's finished attempts, including failed ones, from the store. PHASE or PHASE/PERSONA selects. " +
			"Only the first lines of each tool call and its result are shown; --full shows everything.\n\n" +
			"With -f, follow the session until it ends or waits for a person: what agents print, what models write and the tools that they call, live, with the name of the assignment; " +
			"and attempts when they end. For checks, and for agents on other hosts, the newest lines come every few seconds. The exit code is the session's outcome, as for `watch`. Without Temporal following only the store.",
		Example: "  maestro logs web-7 build/backend\n  maestro logs web-7 -f --tail 1",
		Args:    cmdline.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case c.tail < 0 && cmd.Flags().Changed("tail"):
				return usagef("--tail: %d is less than 0", c.tail)
			case c.since < 0:
				return usagef("--since: %s is less than 0; give a duration like 90m", c.since)
			}
			c.session, c.selection = args[0], strings.Join(args[1:], "")
			return c.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&c.follow, "follow", "f", false, "follow until the session ends or waits for a person; -o json then prints one document per line")
	flags.IntVar(&c.tail, "tail", c.tail, "start with this number of newest attempts; with 0, -f prints only new output (default: all)")
	flags.BoolVar(&c.full, "full", false, "print complete tool calls and results; -o json always does")
	flags.DurationVar(&c.since, "since", 0, "start with the attempts that ended within this duration, like 90m (default: all)")
	a.addSessionFlags(cmd)
	return cmd
}

func (c *logsCommand) run(ctx context.Context) error {
	s, key, err := c.stored(c.session)
	if err != nil {
		return err
	}
	r := &logReader{logsCommand: c, store: s, key: key}
	if c.follow {
		return r.follow(ctx)
	}
	doc := logsDocument{Session: c.session}
	if doc.Logs, err = r.attempts(ctx); err != nil {
		return err
	}
	finished := len(doc.Logs)
	doc.Logs = c.newestOf(doc.Logs, c.now())
	for i := range doc.Logs {
		if err := r.readTexts(ctx, &doc.Logs[i]); err != nil {
			return err
		}
	}
	if c.output == outputJSON {
		return c.printJSON(doc)
	}
	if len(doc.Logs) == 0 && finished > 0 {
		c.printErr("--tail and --since omit %s", textfmt.Count(finished, "finished attempt"))
		return nil
	}
	c.write(doc)
	return nil
}

// newestOf selects attempts by --tail and --since, and keeps their order.
func (c *logsCommand) newestOf(logs []attemptLog, now time.Time) []attemptLog {
	if c.since > 0 {
		logs = slices.DeleteFunc(logs, func(l attemptLog) bool { return now.Sub(l.EndedAt) > c.since })
	}
	if c.tail < 0 || c.tail >= len(logs) {
		return logs
	}
	ends := make([]time.Time, len(logs))
	for i, l := range logs {
		ends[i] = l.EndedAt
	}
	slices.SortFunc(ends, func(x, y time.Time) int { return y.Compare(x) })
	kept := 0
	return slices.DeleteFunc(logs, func(l attemptLog) bool {
		late := c.tail > 0 && kept < c.tail && !l.EndedAt.Before(ends[c.tail-1])
		if late {
			kept++
		}
		return !late
	})
}

// logReader reads a session's attempts from the store.
type logReader struct {
	*logsCommand
	store *store.Store
	key   session.Key
	// warned is the damage that was reported last.
	warned string
}

// attempts lists the selected finished attempts in the order of the team file, without texts.
func (r *logReader) attempts(ctx context.Context) ([]attemptLog, error) {
	e, err := r.store.Execution(r.key)
	if err != nil && !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrCorrupt) {
		return nil, err
	}
	records, err := r.store.Records(ctx, r.key)
	if err != nil && r.warned != err.Error() {
		r.warned = err.Error()
		r.printErr("%s", err)
	}
	records = inOrder(records, e.Phases)
	if records, err = selectRecords(records, e, r.selection); err != nil {
		return nil, err
	}
	logs := []attemptLog{}
	for _, record := range records {
		logs = append(logs, attemptsOf(record)...)
	}
	return logs, nil
}

// readTexts reads an attempt's texts from the store.
func (r *logReader) readTexts(ctx context.Context, l *attemptLog) (err error) {
	if l.Text, err = readTranscript(ctx, r.store, l.Log); err != nil {
		return err
	}
	l.Changes, err = readTranscript(ctx, r.store, l.diff)
	return err
}

// inOrder sorts records in the order of the team file.
func inOrder(records []session.Record, phases []session.PhaseStatus) []session.Record {
	rank := map[spec.AssignmentID]int{}
	for _, p := range phases {
		for _, as := range p.Assignments {
			rank[spec.AssignmentID{Phase: p.Name, Persona: as.Persona}] = len(rank)
		}
	}
	slices.SortStableFunc(records, func(x, y session.Record) int { return rank[x.Assignment] - rank[y.Assignment] })
	return records
}

// selectRecords keeps the records of a phase or an assignment. An assignment
// that exists and has nothing recorded yet is no error.
func selectRecords(records []session.Record, e session.Execution, selection string) ([]session.Record, error) {
	if selection == "" {
		return records, nil
	}
	phase, persona, _ := strings.Cut(selection, "/")
	matches := func(id spec.AssignmentID) bool {
		return id.Phase == phase && (persona == "" || id.Persona == persona)
	}
	var all []string
	known := false
	for _, p := range e.Phases {
		for _, as := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: as.Persona}
			all = append(all, id.String())
			known = known || matches(id)
		}
	}
	records = slices.DeleteFunc(records, func(r session.Record) bool { return !matches(r.Assignment) })
	if len(records) == 0 && !known {
		return nil, usagef("%s not found in the session; it has %s", selection, strings.Join(all, ", "))
	}
	return records, nil
}

// attemptsOf lists a record's attempts, oldest first.
func attemptsOf(r session.Record) []attemptLog {
	var out []attemptLog
	passes := r.Passes()
	for i, round := range r.Rounds {
		first := len(out)
		failed := cost.Usage{}
		for _, at := range round.Attempts {
			failed = failed.Add(at.Usage)
			out = append(out, attemptLog{
				AssignmentID: r.Assignment, Round: round.Round, Attempt: at.Attempt, Status: session.Failed,
				Category: at.Failure.Category, Message: at.Failure.Message, Output: at.Failure.Output,
				Agent: at.Agent, From: at.From, Usage: at.Usage, Supplied: round.Supplied, diff: at.Diff,
				StartedAt: at.StartedAt, EndedAt: at.EndedAt, Log: at.Log,
			})
		}
		if res := round.Result; res != nil {
			l := attemptLog{
				AssignmentID: r.Assignment, Round: round.Round, Attempt: res.Attempts, Status: session.Completed,
				Agent: res.Agent, From: res.From, Usage: res.Usage.Minus(failed), Supplied: round.Supplied, Summary: res.Summary, Decisions: res.Decisions,
				StartedAt: res.StartedAt, EndedAt: res.EndedAt, Log: res.Log,
			}
			if round.Supplied {
				l.Status, l.Attempt = session.Supplied, 1
			}
			out = append(out, l)
		}
		for j := first; j < len(out); j++ {
			out[j].Pass, out[j].again = passes[i], passes[len(passes)-1] > 1
		}
	}
	return out
}

func readTranscript(ctx context.Context, s *store.Store, log spec.Digest) (string, error) {
	if log == "" {
		return "", nil
	}
	data, err := s.Content.Blob(ctx, log)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		return fmt.Sprintf("(the transcript is lost: %s)", err), nil
	}
	return string(data), err
}

func (c *logsCommand) write(doc logsDocument) {
	if len(doc.Logs) == 0 {
		c.printErr("no attempt has finished yet; follow the session with `%s`", c.commandLine("logs -f "+doc.Session))
		return
	}
	for i, l := range doc.Logs {
		if i > 0 {
			c.print("")
		}
		writeLog(c.console, l, c.full)
	}
}

// framing matches the lines that `logs` prints between agents' output.
var framing = regexp.MustCompile(`(?m)^(== |-- decided |-- changes before the failure)`)

// printed returns an agent's output with a space before each line that looks like framing.
func printed(text string) string {
	return framing.ReplaceAllString(strings.TrimRight(safetext.Block(text), "\n"), " $1")
}

// writeLog prints an attempt; full prints its complete transcript.
func writeLog(c *console, l attemptLog, full bool) {
	c.print("%s", c.palette.Paint(terminal.Bold, l.title()))
	if l.Status == session.Failed {
		c.print("%s", c.palette.Paint(terminal.Red, fmt.Sprintf("%s: %s", l.Category, safetext.Line(l.Message))))
	}
	c.print("%s", c.palette.Paint(terminal.Dim, l.circumstances()))
	text := l.Text
	if !full {
		text = transcript.InBrief(text)
	}
	if text = printed(text); text != "" {
		c.print("%s", text)
	}
	if l.Output != "" && !strings.Contains(l.Text, strings.TrimSpace(l.Output)) {
		c.print("%s", printed(l.Output))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Decisions)) {
		value := safetext.Line(l.Decisions[name])
		if !full {
			value = safetext.Clip(value, maxDecision)
		}
		c.print("%s %s = %s", c.palette.Paint(terminal.Dim, "-- decided"), safetext.Line(name), value)
	}
	if l.Changes != "" {
		c.print("%s\n%s", c.palette.Paint(terminal.Dim, "-- changes before the failure"), strings.TrimRight(safetext.Block(l.Changes), "\n"))
	}
}

// maxDecision bounds a decision's value without --full, in characters.
const maxDecision = 200

// title names the attempt and its outcome.
func (l attemptLog) title() string {
	pass := ""
	if l.again {
		pass = fmt.Sprintf("pass %d, ", l.Pass)
	}
	return fmt.Sprintf("== %s, %sround %d, attempt %d: %s", l.AssignmentID, pass, l.Round, l.Attempt, l.Status)
}

// circumstances describes the agent, the starting point, the duration and the cost.
func (l attemptLog) circumstances() string {
	text := terminal.Span(l.EndedAt.Sub(l.StartedAt))
	switch {
	case l.Supplied && l.Summary != "":
		return safetext.Line(l.Summary) + ", " + text
	case l.Supplied:
		return "files supplied by a person, " + text
	case l.Agent != "":
		text = l.Agent + ", " + text
	}
	switch l.From {
	case failures.FromFiles:
		text += ", from the files of the previous attempt"
	case failures.FromConversation:
		text += ", continuing its conversation"
	case failures.FromInput:
	}
	if l.Usage.Tokens() > 0 {
		text += fmt.Sprintf(", %s tokens%s", terminal.Number(l.Usage.Tokens()), terminal.Money(l.Usage))
	}
	return text
}
