package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/models/config"
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
	// Problems is everything that is wrong.
	Problems []config.Problem `json:"problems"`
}

func newValidate(a *app) *cobra.Command {
	var agents string
	cmd := &cobra.Command{
		Use:   "validate TEAM",
		Short: "Check a team file and, with --agents, a worker file against it",
		Long: "Check a team file, or a registered team by its name. With --agents, also check a worker file, and that it has the " +
			"agents and checks that the team uses, and prices if the team has a budget in USD. Nothing is contacted and nothing " +
			"is written.",
		RunE: func(cmd *cobra.Command, args []string) error { return a.validate(cmd.Context(), args[0], agents) },
	}
	cmd.Flags().StringVar(&agents, "agents", "", "worker file to check the team against")
	return a.addStateFlags(cmd)
}

func (a *app) validate(ctx context.Context, teamFile, agents string) error {
	t, err := a.teamNamed(ctx, teamFile)
	problems, err := faultsOf(err)
	if err != nil {
		return err
	}
	if agents != "" {
		cfg, err := config.LoadWorker(agents)
		more, err := faultsOf(err)
		if err != nil {
			return err
		}
		if len(problems) == 0 && len(more) == 0 {
			more = missingDefinitions(t, cfg, agents, a.now())
		}
		problems = append(problems, more...)
	}
	doc := validation(t, problems)
	err = a.result(doc, func() {
		if doc.Valid {
			a.print("%s: %s of %s, %s, with agents %s%s: valid", teamFile, textfmt.Count(len(doc.Phases), "phase"), doc.Team,
				textfmt.Count(len(doc.Personas), "persona"), strings.Join(doc.Agents, ", "), withChecks(doc.Checks))
		}
	})
	if doc.Valid || err != nil {
		return err
	}
	return &codeError{exitUsage, &config.Problems{File: teamFile, List: problems}}
}

func withChecks(checks []string) string {
	if len(checks) == 0 {
		return ""
	}
	return " and checks " + strings.Join(checks, ", ")
}

// faultsOf takes the problems out of a loader's error; other errors stay errors.
func faultsOf(err error) ([]config.Problem, error) {
	if problems, ok := errors.AsType[*config.Problems](err); ok {
		return problems.List, nil
	}
	return nil, err
}

func validation(t spec.Team, problems []config.Problem) validateDocument {
	doc := validateDocument{
		Valid: len(problems) == 0, Team: t.Name, Phases: append([]string{}, t.PhaseNames()...),
		Agents:   append([]string{}, t.AgentNames()...),
		Personas: append([]string{}, slices.Sorted(maps.Keys(t.Written().Personas))...), Checks: []string{},
		Problems: append([]config.Problem{}, problems...),
	}
	for _, use := range t.CheckUses() {
		doc.Checks = append(doc.Checks, use.Check)
	}
	slices.Sort(doc.Checks)
	doc.Checks = slices.Compact(doc.Checks)
	return doc
}

// missingDefinitions lists what a team needs but a worker with a worker file would not offer.
func missingDefinitions(t spec.Team, cfg agent.Config, file string, now time.Time) (problems []config.Problem) {
	offer := spec.Offer{
		RenewedAt: now, Agents: map[string]spec.OfferedAgent{}, Checks: map[string]spec.Digest{},
		Jira: cfg.Jira != nil,
	}
	for name, d := range cfg.Agents {
		offer.Agents[name] = spec.OfferedAgent{Kind: d.Kind, Fallback: d.Fallback, Unpriced: cfg.Unpriced(name)}
	}
	for name := range cfg.Checks {
		offer.Checks[name] = ""
	}
	_, lacks := t.Lacks([]spec.Offer{offer}, now)
	for _, l := range lacks {
		problems = append(problems, config.Problem{File: file, Message: l.String()})
	}
	return problems
}
