package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/config"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// validateDocument is the document of `validate -o json`.
type validateDocument struct {
	Valid bool `json:"valid"`
	// Team is the team's name; empty if the file could not be read.
	Team     string   `json:"team"`
	Phases   []string `json:"phases"`
	Personas []string `json:"personas"`
	// Agents and Checks are what workers have to offer for the team.
	Agents []string `json:"agents"`
	Checks []string `json:"checks"`
	// Faults is everything that is wrong.
	Faults []config.Fault `json:"faults"`
}

func newValidate(a *app) *cobra.Command {
	var agents string
	cmd := &cobra.Command{
		Use:   "validate TEAM",
		Short: "Check a team file and, with --agents, a worker file against it",
		Long:  "Check a team file. With --agents, also check a worker file, and that it has the agents and checks that the team uses, and prices if the team has a budget in USD. Nothing is contacted and nothing is written.",
		Args:  cmdline.Arguments(1, 1),
		RunE:  func(_ *cobra.Command, args []string) error { return a.validate(args[0], agents) },
	}
	cmd.Flags().StringVar(&agents, "agents", "", "worker file to check the team against")
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) validate(teamFile, workerFile string) error {
	t, err := config.LoadTeam(teamFile)
	faults, err := faultsOf(err)
	if err != nil {
		return err
	}
	if workerFile != "" {
		cfg, err := config.LoadWorker(workerFile)
		more, err := faultsOf(err)
		if err != nil {
			return err
		}
		if len(faults) == 0 && len(more) == 0 {
			more = missingDefinitions(t, cfg, workerFile)
		}
		faults = append(faults, more...)
	}
	doc := validation(t, faults)
	if a.output == outputJSON {
		if err := a.printJSON(doc); err != nil {
			return err
		}
	} else if doc.Valid {
		a.print("%s: %s of %s, %s, with agents %s%s: valid", teamFile, textfmt.Count(len(doc.Phases), "phase"), doc.Team,
			textfmt.Count(len(doc.Personas), "persona"), strings.Join(doc.Agents, ", "), withChecks(doc.Checks))
	}
	if doc.Valid {
		return nil
	}
	return &codeError{exitUsage, &config.Faults{File: teamFile, List: faults}}
}

func withChecks(checks []string) string {
	if len(checks) == 0 {
		return ""
	}
	return " and checks " + strings.Join(checks, ", ")
}

// faultsOf takes the faults out of a loader's error; other errors stay errors.
func faultsOf(err error) ([]config.Fault, error) {
	var faults *config.Faults
	if errors.As(err, &faults) {
		return faults.List, nil
	}
	return nil, err
}

func validation(t spec.Team, faults []config.Fault) validateDocument {
	doc := validateDocument{
		Valid: len(faults) == 0, Team: t.Name,
		Phases: []string{}, Agents: []string{}, Checks: []string{}, Personas: []string{}, Faults: []config.Fault{},
	}
	for _, p := range t.Phases {
		doc.Phases = append(doc.Phases, p.Name)
	}
	doc.Personas = append(doc.Personas, slices.Sorted(maps.Keys(t.Personas))...)
	doc.Agents = append(doc.Agents, t.AgentNames()...)
	for _, use := range t.CheckUses() {
		doc.Checks = append(doc.Checks, use.Check)
	}
	slices.Sort(doc.Checks)
	doc.Checks = slices.Compact(doc.Checks)
	doc.Faults = append(doc.Faults, faults...)
	return doc
}

// missingDefinitions lists what a team needs but a worker file does not define.
func missingDefinitions(t spec.Team, cfg agent.Config, file string) []config.Fault {
	var faults []config.Fault
	for _, name := range t.AgentNames() {
		if _, ok := cfg.Agents[name]; !ok {
			faults = append(faults, config.Fault{File: file, Field: "agents", Message: fmt.Sprintf(
				"agent %q, needed by team %s, is missing; it has %s", name, t.Name, terminal.Names(cfg.Agents))})
		}
	}
	agents := map[string]spec.OfferedAgent{}
	for name, d := range cfg.Agents {
		agents[name] = spec.OfferedAgent{Fallback: d.Fallback, Unpriced: d.Unpriced()}
	}
	working := slices.Concat(t.AgentNames(), slices.Collect(maps.Values(t.Fallbacks(agents))))
	maps.DeleteFunc(agents, func(name string, _ spec.OfferedAgent) bool { return !slices.Contains(working, name) })
	for _, fault := range t.Unpriced(agents) {
		faults = append(faults, config.Fault{File: file, Field: "agents", Message: fault.String()})
	}
	if t.Help.Jira != nil && cfg.Jira == nil {
		faults = append(faults, config.Fault{File: file, Field: "jira", Message: fmt.Sprintf(
			"is missing, but team %s has help.jira; add `%s`", t.Name, spec.JiraExample)})
	}
	told := map[string]bool{}
	for _, use := range t.CheckUses() {
		if _, ok := cfg.Checks[use.Check]; !ok && !told[use.Check] {
			told[use.Check] = true
			faults = append(faults, config.Fault{File: file, Field: "checks", Message: fmt.Sprintf(
				"check %q, needed by team %s, is missing; it has %s", use.Check, t.Name, terminal.Names(cfg.Checks))})
		}
	}
	return faults
}
