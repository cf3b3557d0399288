package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// completion is what a completion function returns: words, perhaps with descriptions
// behind a tab, and what the shell is to make of them.
type completion = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective)

// asGiven has the shell show the words as they come, and no files.
const asGiven = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder

// describedSessions is how many sessions are described, and shown newest first. Of
// more only the ids are offered, because each description is a file to be read.
const describedSessions = 500

// executions are the sessions that the store knows and whose ids begin as given, the
// newest first. A store that is not there, or cannot be read, has none: completion
// never complains.
func (a *app) executions(ctx context.Context, begun string) (known []session.Execution) {
	s, namespace := a.quietStore()
	if s == nil {
		return nil
	}
	keys, _ := s.Sessions(ctx, namespace)
	keys = slices.DeleteFunc(keys, func(k session.Key) bool { return !strings.HasPrefix(k.Session, begun) })
	for _, key := range keys {
		e := session.Execution{Status: session.Status{Session: key.Session}}
		if len(keys) <= describedSessions {
			var err error
			if e, err = s.Execution(key); err != nil {
				continue
			}
		}
		known = append(known, e)
	}
	slices.SortStableFunc(known, func(x, y session.Execution) int { return y.UpdatedAt.Compare(x.UpdatedAt) })
	return known
}

// quietStore is the store, nil if there is none, and the namespace that is meant.
func (a *app) quietStore() (*store.Store, string) {
	namespace, err := a.namespace()
	s, missing := a.findStore()
	if err != nil || missing != nil {
		return nil, ""
	}
	return s, namespace
}

// execution is a session by its id; false where the store does not know it.
func (a *app) execution(sessionID string) (e session.Execution, ok bool) {
	s, namespace := a.quietStore()
	if s == nil || spec.CheckSession(sessionID) != nil {
		return e, false
	}
	e, err := s.Execution(session.Key{Namespace: namespace, Session: sessionID})
	return e, err == nil
}

// completeSessions completes the ids of the sessions that the store knows.
func (a *app) completeSessions(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range a.executions(cmd.Context(), begun) {
		word := e.Session
		if e.Team != "" {
			word = cobra.CompletionWithDesc(word, string(e.Status.Status)+", team "+e.Team)
		}
		out = append(out, word)
	}
	return out, asGiven
}

// completeOpen completes a session that has an open request of which of offers
// something, and then that, for the arguments so far.
func (a *app) completeOpen(cmd *cobra.Command, args []string, begun string, of func(session.HelpRequest) []string) ([]string, cobra.ShellCompDirective) {
	var out []string
	offered := map[string]bool{"": true}
	offer := func(word, description string) {
		if strings.HasPrefix(word, begun) && !offered[word] {
			offered[word] = true
			out = append(out, cobra.CompletionWithDesc(word, description))
		}
	}
	if len(args) == 0 {
		for _, e := range a.waiting(cmd.Context()) {
			for _, h := range e.Help {
				if len(of(h)) > 0 {
					offer(e.Session, subject(h)+" "+h.Need())
				}
			}
		}
		return out, asGiven
	}
	e, _ := a.execution(args[0])
	for _, h := range e.Help {
		for _, word := range of(h) {
			offer(word, subject(h)+" "+h.Need())
		}
	}
	return out, asGiven
}

// waiting are the sessions that wait for a person.
func (a *app) waiting(ctx context.Context) (out []session.Execution) {
	s, namespace := a.quietStore()
	if s == nil {
		return nil
	}
	known, _ := s.Executions(ctx, namespace)
	for _, e := range known {
		if len(e.Help) > 0 && !e.Status.Status.Closed() {
			out = append(out, e)
		}
	}
	return out
}

// completeResolve completes the arguments of `resolve`: a session, an answer that
// one of its requests takes, and for supply a path.
func (a *app) completeResolve(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	all, _ := cmd.Flags().GetBool("all")
	switch {
	case all && len(args) == 0:
		return completeWords(begun, verbs(batchVerbs)), cobra.ShellCompDirectiveNoFileComp
	case all:
	case len(args) < 2:
		return a.completeOpen(cmd, args, begun, func(h session.HelpRequest) []string {
			return verbs(slices.DeleteFunc(slices.Clone(resolveVerbs), func(v session.Verb) bool { return !h.Takes(v) }))
		})
	case len(args) == 2 && args[1] == string(session.Supplying):
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeApprovals completes a session and then its phases that wait for approval.
func (a *app) completeApprovals(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeOpen(cmd, args, begun, func(h session.HelpRequest) []string {
		if !h.Takes(session.Approving) {
			return nil
		}
		return []string{h.Phase}
	})
}

// completeRequests completes a flag that names one of the open requests of the
// session that is the command's first argument.
func (a *app) completeRequests(name func(session.HelpRequest) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completeOpen(cmd, args, begun, func(h session.HelpRequest) []string { return []string{name(h)} })
	}
}

// verbs are verbs as they are typed.
func verbs(list []session.Verb) (out []string) {
	for _, v := range list {
		out = append(out, string(v))
	}
	return out
}

// completeWords are the words that begin as given.
func completeWords(begun string, words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return !strings.HasPrefix(w, begun) })
}

// completePhases completes a session and then its phases.
func (a *app) completePhases(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeWithin(cmd, args, begun, func(p session.PhaseStatus) []string {
		return []string{cobra.CompletionWithDesc(p.Name, string(p.Status))}
	})
}

// completePhasePairs completes a session and then a phase or, behind the dots, the second
// of two.
func (a *app) completePhasePairs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	first := ""
	if before, _, two := strings.Cut(begun, ".."); two {
		first = before + ".."
	}
	return a.completeWithin(cmd, args, begun, func(p session.PhaseStatus) []string {
		return []string{cobra.CompletionWithDesc(first+p.Name, string(p.Status))}
	})
}

// completeAssignments completes a session and then its assignments.
func (a *app) completeAssignments(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeWithin(cmd, args, begun, func(p session.PhaseStatus) (ids []string) {
		for _, as := range p.Assignments {
			id := spec.AssignmentID{Phase: p.Name, Persona: as.Persona}.String()
			ids = append(ids, cobra.CompletionWithDesc(id, string(as.Status)))
		}
		return ids
	})
}

func (a *app) completeWithin(cmd *cobra.Command, args []string, begun string, of func(session.PhaseStatus) []string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completeSessions(cmd, args, begun)
	case 1:
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	e, _ := a.execution(args[0])
	var out []string
	for _, p := range e.Phases {
		out = append(out, completeWords(begun, of(p))...)
	}
	return out, asGiven
}
