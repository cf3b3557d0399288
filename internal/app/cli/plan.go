package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// planCommand is `plan`. Its flags are those of `run` that say what is done.
type planCommand struct {
	*app
	workspace workspaceFlags
	course    courseFlags
	supplied  suppliedFlags
}

func newPlan(a *app) *cobra.Command {
	c := planCommand{app: a}
	cmd := &cobra.Command{
		Use:   "plan TEAM",
		Short: "Show a team's phases, and what `run` with the same flags would execute",
		Long: "Show the phases of a team file, or of a registered team, in order: what each needs, its personas, their agents and " +
			"checks; and what `run` with the same flags " +
			"would do with each persona's work. The plan is made as at the start of a session, but needs neither a worker nor Temporal, " +
			"and nothing is started or stored.",
		Example: "  maestro plan team.yaml\n  maestro plan team.yaml --from testing --input implementation=./src",
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	c.workspace.add(cmd, "directory whose files the session would start from, before --input adds to them (default: none)")
	c.course.add(cmd)
	c.supplied.add(cmd)
	return a.addStateFlags(cmd)
}

func (c *planCommand) run(ctx context.Context, name string) error {
	t, err := c.teamNamed(ctx, name)
	if err != nil {
		return err
	}
	if err := c.workspace.check(); err != nil {
		return err
	}
	doc, err := c.preview(ctx, t)
	if err != nil {
		return inputError(err)
	}
	return c.result(doc, func() { c.write(doc) })
}

// preview computes the decisions of an admission, in a temporary store.
func (c *planCommand) preview(ctx context.Context, t spec.Team) (doc control.Plan, err error) {
	temporary := &transit{now: c.now}
	defer temporary.close()
	s, err := temporary.open()
	if err != nil {
		return doc, err
	}
	in := control.NewSession{Team: control.TeamInput{Loaded: &t}, PhaseSelection: c.course.PhaseSelection}
	if err := in.Check(t); err != nil {
		return doc, err
	}
	if in.Workspace, _, err = c.workspace.snapshot(ctx, c.app, s, t); err != nil {
		return doc, err
	}
	if err := c.supplied.store(ctx, c.console, c.environ, s, t, &in); err != nil {
		return doc, err
	}
	return control.Starts{Base: &control.Base{Store: s, Now: c.now}}.Preview(ctx, in)
}

// actionOf describes what happens to an assignment's work.
func actionOf(p control.PlannedPersona) string {
	switch p.Action {
	case session.RunIt:
		return "runs"
	case session.SupplyIt:
		return p.Reason
	case session.Leave:
		return "not run: " + p.Reason
	case session.Restore, session.Drop: // what a new session has none of
	}
	return string(p.Action) + ": " + p.Reason
}

// write prints a plan for people, a paragraph for each phase.
func (c *planCommand) write(doc control.Plan) {
	head := "team " + doc.Team
	if doc.Description != "" {
		head += ": " + doc.Description
	}
	for i, line := range terminal.Wrap(head, terminal.PageWidth) {
		if i == 0 {
			line = strings.Replace(line, doc.Team, c.palette.Paint(terminal.Bold, doc.Team), 1)
		}
		c.print("%s", line)
	}
	c.print("%s; with agents %s%s", textfmt.Count(len(doc.Phases), "phase"), strings.Join(doc.Agents, ", "), withChecks(doc.Checks))
	for i, p := range doc.Phases {
		c.print("\n%d. %s%s", i+1, c.palette.Paint(terminal.Bold, p.Name), conditionOf(p))
		c.writePersonas(p.Personas)
		for _, term := range termsOf(p) {
			c.hang("   ", 5, term)
		}
	}
	c.print("")
	for _, limit := range limitsOf(doc) {
		c.hang("", 2, limit)
	}
}

// writePersonas prints a phase's personas, a line for each; what is set for one alone
// goes below.
func (c *planCommand) writePersonas(personas []control.PlannedPersona) {
	var rows strings.Builder
	t := c.table()
	for _, who := range personas {
		t.Add("   "+who.AssignmentID.Persona, terminal.Painted(actionOf(who), actionColour(who.Action)),
			safetext.Clip(who.Role, 32), "agent "+who.Agent)
	}
	t.Write(&rows)
	lines := strings.Split(rows.String(), "\n")
	for i, who := range personas {
		c.print("%s", lines[i])
		if more := settingsOf(who); more != "" {
			c.hang("     ", 7, more)
		}
	}
}

func actionColour(action session.PlanAction) terminal.Colour {
	switch action {
	case session.RunIt:
		return terminal.Cyan
	case session.SupplyIt, session.Restore:
		return terminal.Green
	case session.Leave, session.Drop:
		return terminal.Dim
	}
	return ""
}

// conditionOf says when the phase may begin.
func conditionOf(p control.PlannedPhase) string {
	text := ", first"
	if len(p.Needs) > 0 {
		text = ", after " + terminal.Enumeration(p.Needs, "and")
	}
	if len(p.Without) > 0 {
		text += ", without the work of " + terminal.Enumeration(p.Without, "and")
	}
	return text
}

// settingsOf are the settings of the persona itself.
func settingsOf(p control.PlannedPersona) string {
	var more []string
	if p.Fallback {
		more = append(more, "or its fallback")
	}
	if p.Timeout > 0 {
		more = append(more, p.Timeout.String()+" per attempt")
	}
	if p.MaxTurns > 0 {
		more = append(more, textfmt.Count(p.MaxTurns, "turn")+" at most")
	}
	return strings.Join(append(more, demandsOf(p.Produces, p.Checks, p.Budget)...), "; ")
}

// demandsOf is what work has to have, and what it may cost.
func demandsOf(produces, checks []string, budget spec.Cap) (all []string) {
	if len(produces) > 0 {
		all = append(all, "produces "+terminal.Enumeration(produces, "and"))
	}
	if len(checks) > 0 {
		all = append(all, "checked by "+terminal.Enumeration(checks, "and"))
	}
	if most := capOf(budget); most != "" {
		all = append(all, "may spend "+most)
	}
	return all
}

// termsOf describes how the phase's personas work together and what is required of the phase.
func termsOf(p control.PlannedPhase) (lines []string) {
	if len(p.Personas) > 1 {
		how := "they work in parallel"
		if p.Order == spec.OrderSequence {
			how = "they work in sequence, each on the previous one's result"
		}
		lines = append(lines, how+"; "+p.Integrator+" fixes merge conflicts and failing checks")
	}
	lines = append(lines, demandsOf(p.Produces, p.Checks, p.Budget)...)
	if len(p.Protected) > 0 {
		lines = append(lines, "may not change "+terminal.Enumeration(p.Protected, "and"))
	}
	if p.SendsBack != nil {
		lines = append(lines, fmt.Sprintf("may send the work of %s back at most %s", p.SendsBack.To,
			textfmt.Count(p.SendsBack.Times, "time")))
	}
	if d := p.Deliver; d != nil {
		lines = append(lines, fmt.Sprintf("delivers a pull request of %s into %s (merge: %s)",
			cmp.Or(d.Repository, "the directory's repository"), cmp.Or(d.Base, "its default branch"), d.Merge),
			fmt.Sprintf("failed checks and reviews send the work of %s back at most %s", d.Fix, textfmt.Count(d.Times, "time")))
	}
	if p.Approve.Ruled() {
		lines = append(lines, "then waits for approval by "+p.Approve.String())
	} else if p.Approve.Wanted() {
		lines = append(lines, "then waits for approval")
	}
	if p.PauseAfter {
		lines = append(lines, "then pauses until `maestro resume`")
	}
	return lines
}

// capOf is a limit of spending; empty if there is none.
func capOf(c spec.Cap) string {
	var parts []string
	if c.Tokens > 0 {
		parts = append(parts, terminal.Number(c.Tokens)+" tokens")
	}
	if c.USD > 0 {
		parts = append(parts, c.USD.String()+" USD")
	}
	return strings.Join(parts, ", ")
}

// limitsOf says what holds for the whole session.
func limitsOf(doc control.Plan) []string {
	retry := fmt.Sprintf("retries: %s per round", textfmt.Count(doc.Retry.Attempts, "attempt"))
	for _, p := range doc.Phases {
		for _, who := range p.Personas {
			if own := fmt.Sprintf("%d for %s", who.Attempts, who.AssignmentID.Persona); who.Attempts != doc.Retry.Attempts &&
				!strings.Contains(retry, own) {
				retry += ", " + own
			}
		}
	}
	retry += "; " + textfmt.Count(doc.Retry.Rounds, "round") + " each; then "
	if doc.Help.Mode == spec.HelpFail {
		retry += "the session fails"
	} else {
		retry += "a person has " + terminal.Days(doc.Help.GiveUpAfter.Std()) + " to help"
	}
	if doc.Help.Jira != nil {
		retry += ", and a ticket is created in " + doc.Help.Jira.Project
	}
	lines := []string{retry}
	reaction := map[spec.OnExceeded]string{
		spec.OnExceededStop: "then the work fails", spec.OnExceededAsk: "then a person is asked for a larger budget",
		spec.OnExceededDegrade: "then fallback agents are used",
	}[doc.Budget.OnExceeded]
	if sessionID := capOf(doc.Budget.Cap()); sessionID != "" {
		lines = append(lines, "budget: "+sessionID+"; "+reaction)
	}
	if daily := capOf(doc.Budget.Daily); daily != "" {
		lines = append(lines, "daily budget of all sessions of the team: "+daily+"; "+reaction)
	}
	return lines
}
