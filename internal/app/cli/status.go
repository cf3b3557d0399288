package cli

import (
	"context"
	"fmt"
	"io"
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
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// statusCommand is `status`.
type statusCommand struct {
	*console
	*connector
	guide *guide
}

func newStatus(a *app) *cobra.Command {
	c := statusCommand{a.console, a.connector, a.guide}
	cmd := &cobra.Command{
		Use:   "status SESSION",
		Short: "Show a session's state",
		Long:  "Show a session's state. This works without a worker and, if the store is available, after Temporal has removed the session.",
		Args:  cmdline.Arguments(1, 1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	a.addServedFlags(cmd)
	return cmd
}

func (c *statusCommand) run(ctx context.Context, sessionID string) error {
	if err := spec.CheckSession(sessionID); err != nil {
		return usagef("%w", err)
	}
	p, err := c.plane(ctx, c.storeOrTemporalBase)
	if err != nil {
		return err
	}
	defer p.close()
	return c.show(ctx, p, sessionID)
}

// show prints the status of a session.
func (c *statusCommand) show(ctx context.Context, p *plane, sessionID string) error {
	v, err := p.status(ctx, sessionID)
	if err != nil {
		return c.explainIn(ctx, p, err)
	}
	if c.output == outputJSON {
		for _, note := range notesOf(v) {
			c.printErr("%s", safetext.Line(note))
		}
		return c.printJSON(v.Document())
	}
	writeStatus(c.guide, v)
	if at := p.dashboard(ctx, sessionID); at != "" {
		c.print("dashboard: %s", at)
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
func writeStatus(g *guide, v sessionstatus.Session) {
	out, p := g.console.stdout, g.console.palette
	_, _ = fmt.Fprintf(out, "%s  %s  team %s\n", p.Paint(terminal.Bold, v.Session), p.State(v.Status.Status), terminal.Dash(v.Team))
	if v.Requirement != "" {
		_, _ = fmt.Fprintf(out, "%s\n", p.Paint(terminal.Dim, safetext.Clip(v.Requirement, 100)))
	}
	if len(v.Labels) > 0 {
		_, _ = fmt.Fprintf(out, "%s\n", p.Paint(terminal.Dim, labelText(v.Labels)))
	}
	notes := notesOf(v)
	if v.Reason != "" && len(v.Help) == 0 && !slices.Contains(notes, v.Reason) { // else its requests say it, and more
		_, _ = fmt.Fprintf(out, "%s\n", safetext.Line(v.Reason))
	}
	for _, note := range v.LeftOut {
		_, _ = fmt.Fprintf(out, "%s\n", p.Paint(terminal.Dim, "not taken of the workspace, "+safetext.Line(note)))
	}
	for _, note := range notes {
		_, _ = fmt.Fprintf(out, "%s\n", p.Paint(terminal.Yellow, safetext.Line(note)))
	}
	if len(v.Phases) > 0 {
		_, _ = fmt.Fprintln(out)
		phases := phaseTable(p, v.Status)
		phases.Fit(g.console.width(out))
		phases.Write(out)
	}
	writeLeftOut(out, v.Status)
	writeFailures(out, p, v.Status)
	for _, h := range v.Help {
		if _, first := answeredTogether(h, v.Help); !first && !v.Status.Status.Closed() {
			continue
		}
		_, _ = fmt.Fprintf(out, "\n%s\n", strings.Join(g.requestLines(v.Status, h, len(failuresOf(v.Status, h)) == 0), "\n"))
	}
	writeAlerts(out, p, v.Alerts)
	writeInterventions(out, p, v.Interventions)
	writeDecisions(out, v.Status)
	_, _ = fmt.Fprintf(out, "\n%s tokens%s, %s events, started %s", terminal.Number(v.Usage.Tokens()), terminal.Money(v.Usage),
		terminal.Number(v.HistoryEvents), terminal.Moment(v.StartedAt))
	if v.StartedBy != "" {
		_, _ = fmt.Fprintf(out, " by %s", safetext.Line(v.Describe()))
	}
	if v.ClosedAt != nil {
		_, _ = fmt.Fprintf(out, ", ended %s", terminal.Moment(v.ClosedAt))
		if v.StartedAt != nil {
			_, _ = fmt.Fprintf(out, " (%s)", terminal.Span(v.ClosedAt.Sub(*v.StartedAt)))
		}
	}
	if v.ClosedAt == nil && v.StartedAt != nil {
		_, _ = fmt.Fprintf(out, " (%s ago)", terminal.Age(g.now().Sub(*v.StartedAt)))
	}
	_, _ = fmt.Fprintln(out)
	if v.Reserved != (cost.Amount{}) {
		_, _ = fmt.Fprintf(out, "reserved for calls in flight: %s\n", terminal.Amount(v.Reserved))
	}
	if v.Unsettled != (cost.Usage{}) {
		_, _ = fmt.Fprintf(out, "calls with unknown cost, estimated at %s; see `maestro budget show %s`\n",
			terminal.Amount(v.Unsettled.Amount()), v.Session)
	}
	if v.Status.Status.Closed() && v.Status.Status != session.Completed {
		_, _ = fmt.Fprintln(out, g.resumption(v.Session))
	}
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
			text := as.Summary
			if as.Progress != "" {
				text = as.Progress
			}
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

// writeLeftOut lists what is not in results, as far as their summaries do not say it.
func writeLeftOut(out io.Writer, s session.Status) {
	for _, phase := range s.Phases {
		for _, as := range phase.Assignments {
			for _, note := range as.Unsaid() {
				_, _ = fmt.Fprintf(out, "\nthe result of %s/%s: %s\n", phase.Name, as.Persona, safetext.Line(note))
			}
		}
	}
}

// writeFailures lists the failed attempts, by assignment.
func writeFailures(out io.Writer, p terminal.Palette, s session.Status) {
	for _, phase := range s.Phases {
		for _, as := range phase.Assignments {
			if len(as.Failures) == 0 {
				continue
			}
			id := spec.AssignmentID{Phase: phase.Name, Persona: as.Persona}
			_, _ = fmt.Fprintf(out, "\nfailed attempts of %s:\n", id)
			for _, r := range groupFailures(as.Failures) {
				_, _ = fmt.Fprintf(out, "  %s. %s: %s\n", r.numbers(), p.Paint(terminal.Red, string(r.Category)), safetext.Clip(r.Message, 300))
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

// shownAlerts is how many of a session's alerts are printed, the newest.
const shownAlerts = 10

func writeAlerts(out io.Writer, p terminal.Palette, alerts []session.Alert) {
	if len(alerts) == 0 {
		return
	}
	_, _ = fmt.Fprintln(out, "\nalerts:")
	for _, a := range alerts[max(0, len(alerts)-shownAlerts):] {
		_, _ = fmt.Fprintf(out, "  %s  %s\n", terminal.Moment(&a.At), p.Paint(terminal.Yellow, safetext.Clip(a.Message, 300)))
	}
}

// shownInterventions is how many of a session's interventions are printed, the newest.
const shownInterventions = 10

func writeInterventions(out io.Writer, p terminal.Palette, all []sessionstatus.Intervention) {
	if len(all) == 0 {
		return
	}
	_, _ = fmt.Fprintln(out, "\ninterventions:")
	if earlier := len(all) - shownInterventions; earlier > 0 {
		_, _ = fmt.Fprintf(out, "  %d earlier ones: see -o json\n", earlier)
		all = all[earlier:]
	}
	for _, i := range all {
		_, _ = fmt.Fprintf(out, "  %s  %s: %s%s%s\n", terminal.Moment(&i.At), safetext.Line(i.Subject()),
			p.Paint(terminal.Bold, actionText(i)), by(i.By), reason(textfmt.Shorten(i.Text, 300)))
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

func writeDecisions(out io.Writer, s session.Status) {
	if len(s.Decisions) == 0 {
		return
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.Decisions)) {
		all = append(all, name+"="+safetext.Clip(s.Decisions[name], 60))
	}
	_, _ = fmt.Fprintf(out, "\ndecisions: %s\n", strings.Join(all, ", "))
}

// seconds is a number of seconds as a duration.
func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
