package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/team"
)

// completeSessions completes the ids of the sessions that the store knows.
func (a *app) completeSessions(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace, err := a.namespace()
	s, missing := a.findStore()
	if err != nil || missing != nil || s == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	known, _ := s.Executions(cmd.Context(), namespace)
	var out []string
	for _, e := range known {
		if strings.HasPrefix(e.Session, begun) {
			out = append(out, cobra.CompletionWithDesc(e.Session, string(e.Status.Status)+", team "+e.Team))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completePhases completes a session and then its phases.
func (a *app) completePhases(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeWithin(cmd, args, begun, func(p team.PhaseStatus) []string { return []string{p.Name} })
}

// completeAssignments completes a session and then its phases and assignments.
func (a *app) completeAssignments(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeWithin(cmd, args, begun, func(p team.PhaseStatus) []string {
		var ids []string
		for _, as := range p.Assignments {
			ids = append(ids, team.AssignmentID{Phase: p.Name, Persona: as.Persona}.String())
		}
		return ids
	})
}

func (a *app) completeWithin(cmd *cobra.Command, args []string, begun string, of func(team.PhaseStatus) []string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeSessions(cmd, args, begun)
	}
	s, key, err := a.stored(args[0])
	if err != nil || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	e, err := s.Execution(key)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, p := range e.Phases {
		for _, word := range of(p) {
			if strings.HasPrefix(word, begun) {
				out = append(out, word)
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
