package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/launch"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	outputText = "text"
	// outputMermaid is the format of diagrams that Markdown pages show.
	outputMermaid = "mermaid"
)

// planDocument is the document of `plan -o json`.
type planDocument struct {
	Team        string `json:"team"`
	Description string `json:"description,omitempty"`
	// Phases, each after those that it needs.
	Phases []plannedPhase `json:"phases"`
	// Agents and Checks are what workers have to offer for the team.
	Agents []string    `json:"agents"`
	Checks []string    `json:"checks"`
	Retry  spec.Retry  `json:"retry"`
	Budget spec.Budget `json:"budget"`
	Help   spec.Help   `json:"help"`
}

// plannedPhase is a phase and what a run would make of it.
type plannedPhase struct {
	Name  string   `json:"name"`
	Needs []string `json:"needs"`
	// Without names phases that this one depends on and that have no work: it runs
	// without them.
	Without    []string         `json:"without"`
	Order      spec.Order       `json:"order"`
	Personas   []plannedPersona `json:"personas"`
	Produces   []string         `json:"produces"`
	Checks     []string         `json:"checks"`
	Integrator string           `json:"integrator"`
	// Approve is as in the team file; false: nobody has to approve.
	Approve   spec.Approval   `json:"approve"`
	SendsBack *spec.SendsBack `json:"sends_back"`
	Budget    spec.Cap        `json:"budget"`
	// PauseAfter: the session pauses after the phase until `approve` or `resume`.
	PauseAfter bool `json:"pause_after"`
}

// plannedPersona is a persona in a phase, and what happens to its work.
type plannedPersona struct {
	Persona string `json:"persona"`
	Role    string `json:"role"`
	Agent   string `json:"agent"`
	// Fallback: the agent's fallback may work in its place.
	Fallback bool             `json:"fallback"`
	Attempts int              `json:"attempts"`
	Timeout  textfmt.Duration `json:"timeout,omitzero"`
	MaxTurns int              `json:"max_turns,omitempty"`
	// Produces and Checks are required of an attempt in addition to the phase's.
	Produces []string `json:"produces"`
	Checks   []string `json:"checks"`
	Budget   spec.Cap `json:"budget"`
	// Action and Reason are those of the session's admission.
	Action session.PlanAction `json:"action"`
	Reason string             `json:"reason"`
}

// planCommand is `plan`. Its flags are those of `run` that say what is done.
type planCommand struct {
	*console
	now       func() time.Time
	format    string
	workspace workspaceFlags
	course    courseFlags
	supplied  suppliedFlags
}

func newPlan(a *app) *cobra.Command {
	c := planCommand{console: a.console, now: a.env.Now}
	cmd := &cobra.Command{
		Use:   "plan TEAM",
		Short: "Show a team's phases, and what `run` with the same flags would execute",
		Long: "Show the phases of a team file in order: what each needs, its personas, their agents and checks; and what `run` with the same flags " +
			"would do with each persona's work. The plan is made as at the start of a session, but needs neither a worker nor Temporal, and nothing is started or stored.",
		Example: "  maestro plan team.yaml\n  maestro plan team.yaml --from testing --input implementation=./src\n  maestro plan team.yaml -o mermaid > team.mmd",
		Args:    cmdline.Arguments(1, 1),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	c.workspace.add(cmd, "directory whose files the session would start from, before --input adds to them (default: none)")
	c.course.add(cmd)
	c.supplied.add(cmd)
	addFormats(cmd, &c.format, outputText, outputMermaid, outputJSON)
	return cmd
}

func (c *planCommand) run(ctx context.Context, file string) error {
	t, err := config.LoadTeam(file)
	if err != nil {
		return err
	}
	if err := c.workspace.check(); err != nil {
		return err
	}
	course, err := c.course.course(t)
	if err != nil {
		return err
	}
	entries, err := c.predict(ctx, t, &course)
	if err != nil {
		return err
	}
	doc := planned(t, course, entries)
	switch c.format {
	case outputJSON:
		return c.printJSON(doc)
	case outputMermaid:
		c.print("%s", doc.mermaid())
	default:
		c.write(doc)
	}
	return nil
}

// predict computes the decisions of an admission, in a temporary store.
func (c *planCommand) predict(ctx context.Context, t spec.Team, course *session.Course) (entries []session.PlanEntry, err error) {
	dir, err := os.MkdirTemp("", "maestro-plan-")
	if err != nil {
		return nil, failf("make a temporary store for the plan: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the remaining files do no harm
	s, err := store.Create(dir, store.Options{Clock: c.now})
	if err != nil {
		return nil, err
	}
	workspace, err := c.workspace.snapshot(ctx, c.console, s, t)
	if err != nil {
		return nil, err
	}
	if err := c.supplied.store(ctx, c.console, s, t, "", course); err != nil {
		return nil, err
	}
	entries, faults, err := activities.Plan(ctx, s.Content, t, *course, workspace)
	if err == nil && len(faults) > 0 {
		err = usagef("%w", &launch.RefusedError{Problems: faults})
	}
	return entries, err
}

// planned puts a team and what happens to its work together.
func planned(t spec.Team, c session.Course, entries []session.PlanEntry) planDocument {
	doc := planDocument{
		Team: t.Name, Description: t.Description, Phases: []plannedPhase{}, Agents: emptyNotNull(t.AgentNames()), Checks: []string{},
		Retry: t.Retry, Budget: t.Budget, Help: t.Help,
	}
	for _, use := range t.CheckUses() {
		if !slices.Contains(doc.Checks, use.Check) {
			doc.Checks = append(doc.Checks, use.Check)
		}
	}
	left := map[string]bool{}
	for _, e := range entries {
		left[e.Phase] = left[e.Phase] || e.Action == session.Leave
	}
	for _, name := range t.Topological() {
		p, _ := t.Phase(name)
		phase := plannedPhase{
			Name: name, Needs: emptyNotNull(p.Needs), Without: []string{}, Order: p.Order, Personas: []plannedPersona{}, Produces: emptyNotNull(p.Produces),
			Checks: emptyNotNull(p.Checks), Integrator: p.Integrator, Approve: p.Approve, SendsBack: p.SendsBack, Budget: p.Budget,
			PauseAfter: slices.Contains(c.PauseAfter, name),
		}
		for _, above := range t.Ancestors(name) {
			if left[above] && !left[name] {
				phase.Without = append(phase.Without, above)
			}
		}
		for _, e := range entries {
			if e.Phase == name {
				phase.Personas = append(phase.Personas, plannedFor(e, t.Personas[e.Persona]))
			}
		}
		doc.Phases = append(doc.Phases, phase)
	}
	return doc
}

func plannedFor(e session.PlanEntry, p spec.Persona) plannedPersona {
	return plannedPersona{
		Persona: e.Persona, Role: p.Role, Agent: p.Agent, Fallback: p.Fallback, Attempts: p.Attempts, Timeout: p.Timeout, MaxTurns: p.MaxTurns,
		Produces: emptyNotNull(p.Produces), Checks: emptyNotNull(p.Checks), Budget: p.Budget, Action: e.Action, Reason: e.Reason,
	}
}

// emptyNotNull is a list that is [] in JSON if it is empty.
func emptyNotNull(list []string) []string { return append([]string{}, list...) }

// action describes what happens to an assignment's work.
func (p plannedPersona) action() string {
	switch p.Action {
	case session.RunIt:
		return "runs"
	case session.SupplyIt:
		return strings.Replace(p.Reason, "supplied: ", "supplied: ", 1)
	case session.Leave:
		return "not run: " + p.Reason
	case session.Restore, session.Drop: // what a new session has none of
	}
	return string(p.Action) + ": " + p.Reason
}
