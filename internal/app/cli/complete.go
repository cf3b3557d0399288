package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state"
)

// Completion reads the store and team files. It contacts neither Temporal nor workers,
// and prints no errors: where something cannot be read, nothing is offered.

const (
	noFiles = cobra.ShellCompDirectiveNoFileComp
	// keepOrder shows words in the order in which they are offered.
	keepOrder = noFiles | cobra.ShellCompDirectiveKeepOrder
)

// shellSyntax are characters that are not offered: shells insert the common beginning of
// several words without quoting it.
const shellSyntax = "$`;&|<>!\"\\"

// completion completes what is typed.
type completion struct{ *connector }

// addTo gives the arguments and flags of all commands their completion.
func (c completion) addTo(root *cobra.Command) {
	root.CompletionOptions.SetDefaultShellCompDirective(noFiles)
	flags := c.flagCompletions()
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
		if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = c.argumentCompletion(cmd, path)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			complete, ok := flags[path+" --"+f.Name]
			if !ok {
				complete, ok = flags["--"+f.Name]
			}
			if _, own := cmd.GetFlagCompletionFunc(f.Name); ok && !own && f.NoOptDefVal == "" {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
			}
		})
		for _, sub := range cmd.Commands() {
			add(sub)
		}
	}
	add(root)
}

// argumentCompletion completes a command's arguments by its usage line.
func (c completion) argumentCompletion(cmd *cobra.Command, path string) cobra.CompletionFunc {
	if path == "resolve" {
		return arguments(c.sessionNames, cobra.FixedCompletions(words(resolveActions), noFiles), files)
	}
	_, usage, _ := strings.Cut(cmd.Use, " ")
	var all []cobra.CompletionFunc
	for _, noun := range strings.FieldsFunc(usage, func(r rune) bool { return strings.ContainsRune("[]() |", r) }) {
		switch noun {
		case "SESSION":
			all = append(all, c.sessionNames)
		case "PHASE":
			all = append(all, completeWord(c.phaseNames))
		case "PHASE/PERSONA":
			all = append(all, completeWord(c.assignmentNames))
		case "TEAM":
			all = append(all, yamlFiles)
		case "DIR":
			all = append(all, directories)
		case "FILE":
			all = append(all, files)
		}
		if noun != "SESSION" { // nothing behind an optional or alternative argument
			break
		}
	}
	return arguments(all...)
}

// words are names of a type as they are typed.
func words[T ~string](names []T) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return all
}

// flagCompletions lists the completion of flags by name or, where a name has several
// meanings, by command and name.
func (c completion) flagCompletions() map[string]cobra.CompletionFunc {
	phases := listOf(c.phaseNames)
	return map[string]cobra.CompletionFunc{
		"--only": phases, "--from": phases, "--until": phases, "--pause-after": phases, "--force": phases, "--phase": phases,
		"--fix":         completeWord(c.phaseNames),
		"resolve --for": completeWord(c.assignmentNames),
		"--agents":      yamlFiles, "--file": files, "checkpoints export --out": files,
		"--state-dir": directories, "--workspace": directories, "--dir": directories, "--out": directories,
		"--config-file": files, "--tls-cert-path": files, "--tls-key-path": files, "--tls-ca-path": files,
		"--with": c.sessionNames,
	}
}

// arguments completes the first argument with the first function, and so on.
func arguments(all ...cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(all) {
			return nil, noFiles
		}
		return all[len(args)](cmd, args, begun)
	}
}

func files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func yamlFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completer lists what can be typed, given the arguments so far.
type completer func(ctx context.Context, args []string) []string

// completeWord completes one word.
func completeWord(list completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		return safeWords(list(cmd.Context(), args), begun), keepOrder
	}
}

// listOf completes the last word of a list that is separated by commas.
func listOf(list completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		head := begun[:strings.LastIndex(begun, ",")+1]
		var all []string
		for _, word := range list(cmd.Context(), args) {
			if !slices.Contains(strings.Split(head, ","), word) {
				all = append(all, head+word)
			}
		}
		return safeWords(all, begun), keepOrder
	}
}

// safeWords are the words with a prefix that are safe on a command line, each once.
func safeWords(all []string, prefix string) (out []string) {
	for _, word := range all {
		safe := word != "" && word == safetext.Name(word) && !strings.ContainsAny(word, shellSyntax)
		if safe && strings.HasPrefix(word, prefix) && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// storeIfAny is the store, nil if there is none, and the chosen namespace.
func (c completion) storeIfAny(ctx context.Context) (*store.Store, string) {
	base, _, err := c.storeBase(ctx)
	if err != nil {
		return nil, ""
	}
	return base.Store, base.Namespace
}

// sessionNames completes a session's id, newest first.
func (c completion) sessionNames(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, e := range c.executions(cmd.Context(), begun) {
		word := e.Session
		if e.Team != "" {
			word = cobra.CompletionWithDesc(word, string(e.Status)+", team "+e.Team)
		}
		out = append(out, word)
	}
	return out, keepOrder
}

// executions are the sessions in the store whose ids have a prefix, newest first.
func (c completion) executions(ctx context.Context, prefix string) (known []state.Session) {
	s, namespace := c.storeIfAny(ctx)
	if s == nil {
		return nil
	}
	known, _ = s.State.Sessions(ctx, state.Filter{Namespace: namespace, Text: prefix})
	return slices.DeleteFunc(known, func(one state.Session) bool { return !strings.HasPrefix(one.Session, prefix) })
}

// execution is the session in the first argument; false where the store does not have it.
func (c completion) execution(ctx context.Context, args []string) (e session.Execution, ok bool) {
	s, namespace := c.storeIfAny(ctx)
	if s == nil || len(args) == 0 || spec.CheckSession(args[0]) != nil {
		return e, false
	}
	e, err := s.State.Execution(ctx, session.Key{Namespace: namespace, Session: args[0]})
	return e, err == nil
}

// phaseNames are those of the session or of the team file in the first argument. A phase also
// names the checkpoint after it.
func (c completion) phaseNames(ctx context.Context, args []string) (names []string) {
	e, ok := c.execution(ctx, args)
	for _, p := range e.Phases {
		names = append(names, p.Name)
	}
	if !ok && len(args) > 0 {
		if t, err := config.LoadTeam(args[0]); err == nil {
			return t.PhaseNames()
		}
	}
	return names
}

// assignmentNames are those of the session in the first argument, as PHASE/PERSONA.
func (c completion) assignmentNames(ctx context.Context, args []string) (ids []string) {
	e, _ := c.execution(ctx, args)
	for _, p := range e.Phases {
		for _, as := range p.Assignments {
			ids = append(ids, spec.AssignmentID{Phase: p.Name, Persona: as.Persona}.String())
		}
	}
	return ids
}
