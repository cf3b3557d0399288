package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func newStatus(a *app) *cobra.Command {
	return a.addServedFlags(&cobra.Command{
		Use:   "status SESSION",
		Short: "Show a session's state",
		Long:  "Show a session's state. This works without a worker, and after Temporal has removed the session.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := spec.CheckSession(args[0]); err != nil {
				return usagef("%w", err)
			}
			p, err := a.served(a.shownBase)(cmd.Context())
			if err != nil {
				return err
			}
			defer p.close()
			return a.showStatus(cmd.Context(), p, args[0])
		},
	})
}

// showStatus prints the status of a session.
func (a *app) showStatus(ctx context.Context, p *backend, sessionID string) error {
	v, err := p.status(ctx, sessionID)
	if err != nil {
		return a.explain(err)
	}
	if a.output == outputJSON {
		for _, note := range notesOf(v) {
			a.printErr("%s", safetext.Line(note))
		}
		return a.printJSON(v)
	}
	a.writeStatus(v)
	if at := p.dashboard(ctx, sessionID); at != "" {
		a.print("dashboard: %s", at)
	}
	return nil
}

// notesOf lists sentences that a person should know about a session besides its
// status.
func notesOf(v sessionstatus.Session) []string {
	notes := slices.Clone(v.Notes)
	for _, w := range v.Warnings {
		notes = append(notes, fmt.Sprintf("the budget of %[2]s reached %[1]g%% at %[3]s: %[4]s of %[5]s",
			100*w.At, budget.Label(w.Scope), terminal.Moment(&w.When), terminal.AmountIn(w.Spent, w.Cap), terminal.Cap(w.Cap)))
	}
	return notes
}

// labelText is labels in one line, as KEY=VALUE.
func labelText(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, safetext.Name(key+"="+labels[key]))
	}
	return strings.Join(all, ", ")
}

// writeStatus prints a status for people.
func (a *app) writeStatus(v sessionstatus.Session) {
	p := a.palette
	a.print("%s  %s  team %s", p.Paint(terminal.Bold, v.Session), p.State(v.Status.Status), terminal.Dash(v.Team))
	if v.Requirement != "" {
		a.print("%s", p.Paint(terminal.Dim, safetext.Clip(v.Requirement, 100)))
	}
	if len(v.Labels) > 0 {
		a.print("%s", p.Paint(terminal.Dim, labelText(v.Labels)))
	}
	notes := notesOf(v)
	if v.Reason != "" && len(v.Help) == 0 && !slices.Contains(notes, v.Reason) { // else its requests say it, and more
		a.print("%s", safetext.Line(v.Reason))
	}
	for _, note := range v.LeftOut {
		a.print("%s", p.Paint(terminal.Dim, "not taken of the workspace, "+safetext.Line(note)))
	}
	for _, note := range notes {
		a.print("%s", p.Paint(terminal.Yellow, safetext.Line(note)))
	}
	if len(v.Phases) > 0 {
		a.print("")
		a.writeFitted(phaseTable(p, v.Status))
	}
	a.writePullRequests(v.Status)
	a.writeAssignments(v.Status)
	for _, e := range control.EntriesOf(v.Status) {
		a.print("\n%s", strings.Join(a.requestLines(v.Status, e, len(failuresOf(v.Status, e.Request)) == 0), "\n"))
	}
	a.writeAlerts(v.Alerts)
	a.writeInterventions(v.Interventions)
	var decisions []string
	for _, name := range slices.Sorted(maps.Keys(v.Decisions)) {
		decisions = append(decisions, name+"="+safetext.Clip(v.Decisions[name], 60))
	}
	if len(decisions) > 0 {
		a.print("\ndecisions: %s", strings.Join(decisions, ", "))
	}
	a.print("\n%s", a.summary(v))
	if v.Reserved != (cost.Amount{}) {
		a.print("reserved for calls in flight: %s", terminal.Amount(v.Reserved))
	}
	if v.Unsettled != (cost.Usage{}) {
		a.print("calls with unknown cost, estimated at %s; see `maestro budget show %s`", terminal.Amount(v.Unsettled.Amount()),
			v.Session)
	}
	if v.Status.Status.Closed() && v.Status.Status != session.Completed {
		a.print("%s", a.resumption(v.Session))
	}
}

// summary is the usage of a session, and when it has run.
func (a *app) summary(v sessionstatus.Session) string {
	text := fmt.Sprintf("%s tokens%s, %s events, started %s", terminal.Number(v.Usage.Tokens()), terminal.Money(v.Usage),
		terminal.Number(v.HistoryEvents), terminal.Moment(v.StartedAt))
	if v.StartedBy != "" {
		text += " by " + safetext.Line(v.Describe())
	}
	if v.ClosedAt != nil {
		text += ", ended " + terminal.Moment(v.ClosedAt)
	}
	switch {
	case v.StartedAt == nil:
		return text
	case v.ClosedAt != nil:
		return text + " (" + terminal.Span(v.ClosedAt.Sub(*v.StartedAt)) + ")"
	}
	return text + " (" + terminal.Age(a.now().Sub(*v.StartedAt)) + " ago)"
}

func phaseTable(p terminal.Palette, s session.Status) *terminal.Table {
	t := terminal.NewTable(p, "PHASE", "PERSONA", "STATE", "TIME", "ROUNDS", "ATTEMPTS", "TOKENS", "USD", "")
	for _, phase := range s.Phases {
		for i, as := range phase.Assignments {
			name := ""
			if i == 0 {
				name = phase.Name
				if len(phase.Assignments) > 1 && phase.Seconds > 0 {
					name += " (" + terminal.Span(seconds(phase.Seconds)) + ")"
				}
			}
			took := terminal.Dash("")
			if as.Seconds > 0 {
				took = terminal.Span(seconds(as.Seconds))
			}
			text := cmp.Or(as.Progress, as.Summary)
			if as.Agent != "" {
				text = fmt.Sprintf("(fallback %s) %s", as.Agent, text)
			}
			if len(as.Dropped) > 0 {
				text = strings.Join(as.Dropped, "; ") + ". " + text
			}
			if as.LostWorkers > 0 {
				text = fmt.Sprintf("(%s lost) %s", textfmt.Count(as.LostWorkers, "worker"), text)
			}
			if i == 0 && phase.Status == session.AwaitingApproval {
				text = "(the phase waits for approval) " + text
			}
			t.Add(name, as.Persona, terminal.Painted(string(as.Status), terminal.StateColour(as.Status)),
				took, terminal.Figure(int64(as.Rounds)), terminal.Figure(int64(as.Attempts)),
				terminal.Figure(as.Usage.Tokens()), terminal.Dollars(as.Usage.CostUSD), terminal.Painted(text, terminal.Dim))
		}
	}
	return t
}

// writePullRequests says how the pull requests of phases stand, and where they are.
func (a *app) writePullRequests(s session.Status) {
	for _, p := range s.Phases {
		pull := p.PullRequest
		if pull == nil {
			continue
		}
		text := pull.String()
		if !pull.ChangedAt.IsZero() {
			text += ", since " + terminal.Moment(&pull.ChangedAt)
		}
		a.print("\n%s: %s\n  %s", p.Name, safetext.Line(text), safetext.Line(pull.URL))
		for _, as := range p.Assignments {
			if as.Progress != "" { // the table may have no room for it
				a.print("  %s", safetext.Clip(as.Progress, 400))
			}
		}
	}
}

// writeAssignments lists what is not in results, as far as their summaries do not say it, and the failed attempts.
func (a *app) writeAssignments(s session.Status) {
	for _, phase := range s.Phases {
		for _, as := range phase.Assignments {
			id := spec.AssignmentID{Phase: phase.Name, Persona: as.Persona}
			for _, note := range as.Unsaid() {
				a.print("\nthe result of %s: %s", id, safetext.Line(note))
			}
			if len(as.Failures) > 0 {
				a.print("\nfailed attempts of %s:", id)
			}
			for _, r := range groupFailures(as.Failures) {
				a.print("  %s. %s: %s", r.numbers(), a.palette.Paint(terminal.Red, string(r.Category)), safetext.Clip(r.Message, 300))
			}
		}
	}
}

// failuresOf lists the failures of the assignment that a request is about.
func failuresOf(s session.Status, h session.Request) []session.AttemptFailure {
	if a := s.Assignment(spec.AssignmentID{Phase: h.Phase, Persona: h.Persona}); a != nil {
		return a.Failures
	}
	return nil
}

// mostShown is how many of a session's alerts, and of its interventions, are printed, the newest.
const mostShown = 10

func (a *app) writeAlerts(alerts []session.Alert) {
	if len(alerts) > 0 {
		a.print("\nalerts:")
	}
	for _, alert := range alerts[max(0, len(alerts)-mostShown):] {
		a.print("  %s  %s", terminal.Moment(&alert.At), a.palette.Paint(terminal.Yellow, safetext.Clip(alert.Message, 300)))
	}
}

func (a *app) writeInterventions(all []sessionstatus.Intervention) {
	if len(all) > 0 {
		a.print("\ninterventions:")
	}
	if earlier := len(all) - mostShown; earlier > 0 {
		a.print("  %d earlier ones: see -o json", earlier)
		all = all[earlier:]
	}
	for _, i := range all {
		a.print("  %s  %s: %s%s%s", terminal.Moment(&i.At), safetext.Line(i.Subject()),
			a.palette.Paint(terminal.Bold, actionText(i)), by(i.By), reason(textfmt.Shorten(i.Text, 300)))
	}
}

// actionText names what was done in an intervention.
func actionText(i sessionstatus.Intervention) string {
	switch {
	case i.Action == sessionstatus.Raise:
		return "raise of " + terminal.Amount(i.Added)
	case i.Left > 0:
		return fmt.Sprintf("%s (%s to go)", safetext.Line(string(i.Action)), textfmt.Count(i.Left, "approval"))
	}
	return safetext.Line(string(i.Action))
}

// seconds is a number of seconds as a duration.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
