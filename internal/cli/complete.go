package cli

import (
	"fmt"
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

// completeOpen completes a session that waits for a person, and then what of
// offers of its open requests for the arguments so far.
func (a *app) completeOpen(cmd *cobra.Command, args []string, begun string, of func(team.HelpRequest) []string) ([]string, cobra.ShellCompDirective) {
	var out []string
	offered := map[string]bool{"": true}
	offer := func(word, description string) {
		if strings.HasPrefix(word, begun) && !offered[word] {
			offered[word] = true
			out = append(out, cobra.CompletionWithDesc(word, description))
		}
	}
	if len(args) == 0 {
		namespace, err := a.namespace()
		s, missing := a.findStore()
		if err != nil || missing != nil || s == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		known, _ := s.Executions(cmd.Context(), namespace)
		for _, e := range known {
			if len(e.Help) > 0 && !e.Status.Status.Closed() {
				offer(e.Session, fmt.Sprintf("%s %s", subject(e.Help[0]), asks(e.Help[0])))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	s, key, err := a.stored(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	e, err := s.Execution(key)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, h := range e.Help {
		for _, word := range of(h) {
			offer(word, subject(h)+" "+asks(h))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeResolve completes the arguments of `resolve`: a session, an answer that
// one of its requests takes, and for supply a path.
func (a *app) completeResolve(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) < 2:
		return a.completeOpen(cmd, args, begun, func(h team.HelpRequest) []string {
			var verbs []string
			for _, v := range resolveVerbs {
				if h.Takes(v) {
					verbs = append(verbs, string(v))
				}
			}
			return verbs
		})
	case len(args) == 2 && args[1] == string(team.Supplying):
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeApprovals completes a session and then its phases that wait for approval.
func (a *app) completeApprovals(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeOpen(cmd, args, begun, func(h team.HelpRequest) []string {
		if !h.Takes(team.Approving) {
			return nil
		}
		return []string{h.Phase}
	})
}

// completeRequests completes a flag that names one of the open requests of the
// session that is the command's first argument.
func (a *app) completeRequests(name func(team.HelpRequest) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeOpen(cmd, args, begun, func(h team.HelpRequest) []string { return []string{name(h)} })
	}
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
