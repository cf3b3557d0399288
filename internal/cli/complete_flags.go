package cli

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// completeRest gives every flag and argument below a command that has no completion
// of its own the one that its name asks for, so that a flag of the same name is
// completed alike everywhere. Whatever a name says nothing about completes to
// nothing rather than to files that it cannot mean.
func (a *app) completeRest(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		a.completeRest(c)
	}
	byName := a.flagCompletions()
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" || completesFiles(f) {
			return
		}
		if _, own := cmd.GetFlagCompletionFunc(f.Name); own {
			return
		}
		complete, known := byName[strings.TrimPrefix(cmd.CommandPath(), "maestro ")+" --"+f.Name]
		if !known {
			complete, known = byName["--"+f.Name]
		}
		if !known {
			complete = cobra.NoFileCompletions
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
	})
	if cmd.ValidArgsFunction == nil && !cmd.HasSubCommands() {
		cmd.ValidArgsFunction = a.argumentCompletion(cmd)
	}
}

// completesFiles tells whether the flag was marked as one that takes files.
func completesFiles(f *pflag.Flag) bool {
	return f.Annotations[cobra.BashCompFilenameExt] != nil || f.Annotations[cobra.BashCompSubdirsInDir] != nil
}

// argumentCompletion completes the first argument of a command by what its usage
// line calls it.
func (a *app) argumentCompletion(cmd *cobra.Command) completion {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	switch first, _, _ := strings.Cut(strings.Trim(arguments, "[]"), " "); first {
	case "TEAM":
		return onlyFirst(yamlFiles)
	case "FILE":
		return onlyFirst(anyFile)
	case "DIR":
		return onlyFirst(directories)
	}
	return cobra.NoFileCompletions
}

func onlyFirst(complete completion) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begun)
	}
}

func yamlFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

func anyFile(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// fixed completes to a list of words, in its order.
func fixed(words ...string) completion { return cobra.FixedCompletions(words, asGiven) }

// wordsOf completes to what is known at the moment.
func wordsOf(list func(cmd *cobra.Command, args []string) []string) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		return completeWords(begun, list(cmd, args)), cobra.ShellCompDirectiveNoFileComp
	}
}

// flagCompletions says how flags are completed, by name, and where a name has
// another meaning with one command, by command and name.
func (a *app) flagCompletions() map[string]completion {
	teams := wordsOf(func(cmd *cobra.Command, _ []string) []string { return a.teamNames(cmd.Context()) })
	phases := func(_ *cobra.Command, args []string) []string { return a.phasesOfSession(args) }
	return map[string]completion{
		"--agents":          yamlFiles,
		"--team":            yamlFiles,
		"--state-dir":       directories,
		"--workspace":       directories,
		"--out":             directories,
		"--file":            anyFile,
		"--log-format":      fixed("text", "json"),
		"--log-level":       fixed("debug", "info", "warn", "error"),
		"--since":           fixed("1d\tsince yesterday", "7d", "30d"),
		"--connect-timeout": fixed("0\tfor ever", "30s", "5m"),
		"--schedule":        fixed("24h\tonce a day", "off\tend the schedule"),

		"--config-file": func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"toml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		"--tls-cert-path": anyFile,
		"--tls-key-path":  anyFile,
		"--tls-ca-path":   anyFile,
		"--profile":       wordsOf(func(*cobra.Command, []string) []string { return a.temporal.Profiles(a.environ) }),
		"--namespace":     wordsOf(func(cmd *cobra.Command, _ []string) []string { return a.namespaces(cmd.Context()) }),

		"--request": a.completeRequests(func(h session.HelpRequest) string { return h.ID }),
		"--phase":   wordsOf(phases),
		"--persona": wordsOf(func(_ *cobra.Command, args []string) []string { return a.personas(args) }),
		"--force":   listOf(phases),
		"--edit":    pairsOf(a.phasesOfSession),

		"checkpoints export --out": anyFile,
		"resolve --phase":          wordsOf(func(cmd *cobra.Command, _ []string) []string { return a.openPhases(cmd.Context()) }),
		"resolve --team":           teams,
		"list --team":              teams,
		"list --status":            fixed(sessionStates...),
		"budget show --team":       teams,
		"budget raise --team":      teams,
		"run --from-jira":          wordsOf(func(cmd *cobra.Command, _ []string) []string { return a.ticketKeys(cmd.Context()) }),
	}
}

// listOf completes the last word of a list that is separated by commas, without the
// words that it has.
func listOf(list func(cmd *cobra.Command, args []string) []string) completion {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		head := begun[:strings.LastIndex(begun, ",")+1]
		var out []string
		for _, word := range list(cmd, args) {
			if !slices.Contains(strings.Split(head, ","), word) {
				out = append(out, head+word)
			}
		}
		return completeWords(begun, out), cobra.ShellCompDirectiveNoFileComp
	}
}

// pairsOf completes PHASE=PATH: a phase that of lists and, behind the sign, a path.
// Not every shell would complete files there by itself.
func pairsOf(of func(args []string) []string) completion {
	return func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		const open = cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		phase, path, hasPath := strings.Cut(begun, "=")
		var out []string
		if !hasPath {
			for _, phase := range of(args) {
				out = append(out, phase+"=")
			}
			return completeWords(begun, out), open
		}
		for _, file := range paths(path) {
			out = append(out, phase+"="+file)
		}
		if len(out) == 1 && !strings.HasSuffix(out[0], "/") {
			return out, cobra.ShellCompDirectiveNoFileComp
		}
		return out, open
	}
}

// paths are the files that begin as given, directories with a slash at their end.
// Hidden ones have to be asked for.
func paths(begun string) (out []string) {
	parent, base := begun[:strings.LastIndex(begun, "/")+1], begun[strings.LastIndex(begun, "/")+1:]
	dir := filepath.Join(".", parent)
	if filepath.IsAbs(parent) {
		dir = parent
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, base) || strings.HasPrefix(name, ".") && base == "" {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.IsDir() {
			name += "/"
		}
		out = append(out, parent+name)
	}
	return out
}

// teamNames are the teams of the sessions that the store knows.
func (a *app) teamNames(ctx context.Context) (names []string) {
	for _, e := range a.executions(ctx, "") {
		names = append(names, e.Team)
	}
	return distinct(names)
}

// openPhases are the phases that somebody is asked about.
func (a *app) openPhases(ctx context.Context) (names []string) {
	for _, e := range a.waiting(ctx) {
		for _, h := range e.Help {
			names = append(names, h.Phase)
		}
	}
	return distinct(names)
}

// ticketKeys are the tickets that sessions have made: those that the store tells of.
func (a *app) ticketKeys(ctx context.Context) (keys []string) {
	for _, e := range a.waiting(ctx) {
		for _, h := range e.Help {
			if h.Ticket != nil {
				keys = append(keys, h.Ticket.Key)
			}
		}
	}
	return distinct(keys)
}

// personas are those of the session that is a command's first argument.
func (a *app) personas(args []string) (names []string) {
	if len(args) == 0 {
		return nil
	}
	e, _ := a.execution(args[0])
	for _, p := range e.Phases {
		for _, as := range p.Assignments {
			names = append(names, as.Persona)
		}
	}
	return distinct(names)
}

// namespaces are those that the store has sessions of.
func (a *app) namespaces(ctx context.Context) []string {
	s, err := a.findStore()
	if err != nil || s == nil {
		return nil
	}
	names, _ := s.Namespaces(ctx)
	return names
}

func distinct(words []string) []string {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	slices.Sort(words)
	return slices.Compact(words)
}

// completeArtifacts completes a session and then paths of its files.
func (a *app) completeArtifacts(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeInTree(cmd, args, begun, func(_, tree store.Manifest) []string { return tree.Paths() })
}

// completeChanged completes a session and then paths that it has changed, of files
// that it has removed, too.
func (a *app) completeChanged(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completeInTree(cmd, args, begun, func(workspace, tree store.Manifest) []string {
		return slices.Collect(maps.Keys(store.Diff(workspace, tree)))
	})
}

// shellMeans is what no completion has that an agent may have chosen: a shell puts what
// several completions begin with on the command line as it is, and the next return runs it.
const shellMeans = "$`;&|<>!\"\\"

// completeInTree completes a session and then those of the paths that of names, a
// directory at a time.
func (a *app) completeInTree(cmd *cobra.Command, args []string, begun string, of func(workspace, tree store.Manifest) []string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeSessions(cmd, args, begun)
	}
	var out []string
	for _, path := range of(a.treesOf(cmd.Context(), args[0])) {
		if !strings.HasPrefix(path, begun) || strings.ContainsAny(path, shellMeans) || path != safetext.Name(path) {
			continue
		}
		if next := strings.Index(path[len(begun):], "/"); next >= 0 {
			path = path[:len(begun)+next+1]
		}
		out = append(out, path)
	}
	out = distinct(out)
	directive := cobra.ShellCompDirectiveNoFileComp
	if slices.ContainsFunc(out, func(p string) bool { return strings.HasSuffix(p, "/") }) {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return out, directive
}

// treesOf are the files that a session began with, and those of its work so far; none
// where they are not known.
func (a *app) treesOf(ctx context.Context, sessionID string) (workspace, tree store.Manifest) {
	e, ok := a.execution(sessionID)
	s, _ := a.quietStore()
	if !ok || s == nil || e.Tree == "" {
		return nil, nil
	}
	tree, _ = s.Manifest(ctx, e.Tree)
	if head, err := s.Checkpoint(ctx, e.Head); err == nil {
		workspace, _ = s.Manifest(ctx, head.Workspace)
	}
	return workspace, tree
}

// completeCalls completes a session, one of its assignments that has calls whose cost
// nobody knows, and such a call.
func (a *app) completeCalls(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeSessions(cmd, args, begun)
	}
	var out []string
	for _, c := range a.unknownCosts(args[0]) {
		id := c.String()
		switch {
		case len(args) == 1:
			out = append(out, id)
		case len(args) == 2 && id == args[1]:
			out = append(out, cobra.CompletionWithDesc(strconv.FormatInt(c.Call, 10), c.Agent+" "+c.Model))
		}
	}
	return completeWords(begun, slices.Compact(out)), asGiven
}

// unknownCosts are a session's calls whose cost nobody knows.
func (a *app) unknownCosts(sessionID string) []openCall {
	s, namespace := a.quietStore()
	key := session.Key{Namespace: namespace, Session: sessionID}
	if s == nil || spec.CheckSession(sessionID) != nil {
		return nil
	}
	l, err := s.Ledger(key)
	if err != nil {
		return nil
	}
	calls, _ := openCalls(s, key, l)
	return calls
}
