package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// written is a line of a page that names commands.
type written struct {
	at   string
	line string
	// whole says that it is to be typed as it is, and no mention in a sentence.
	whole bool
}

var (
	inline      = regexp.MustCompile("`(maestro(?:-worker)? [^`]+)`")
	fence       = regexp.MustCompile("^ *```(\\w*)")
	placeholder = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

// writtenIn finds what a page says of commands: in its blocks of shell, and in code
// in its sentences and tables.
func writtenIn(t *testing.T, page string) []written {
	t.Helper()
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	var found []written
	language, inBlock, block := "", false, ""
	for i, line := range strings.Split(string(data), "\n") {
		at := fmt.Sprintf("%s:%d", page, i+1)
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil && inBlock:
			if language == "sh" || language == "console" {
				found = append(found, written{at, block, true})
			}
			inBlock = false
		case m != nil:
			inBlock, language, block = true, m[1], ""
		case inBlock && language == "console":
			if typed, ok := strings.CutPrefix(line, "$ "); ok {
				block += typed + "\n"
			}
		case inBlock:
			block += line + "\n"
		default:
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				for _, l := range readings(strings.ReplaceAll(m[1], `\|`, "|")) {
					found = append(found, written{at, l, false})
				}
			}
		}
	}
	require.False(t, inBlock, "%s ends in a block", page)
	return found
}

// readings are the lines that a synopsis stands for: with and without what is in
// brackets, and with each of several words.
func readings(synopsis string) []string {
	if open := strings.LastIndex(synopsis, "["); open >= 0 {
		end := strings.Index(synopsis[open:], "]")
		if end < 0 {
			return []string{synopsis}
		}
		before, in, after := synopsis[:open], synopsis[open+1:open+end], synopsis[open+end+1:]
		all := readings(before + after)
		for _, choice := range strings.Split(in, " | ") {
			all = append(all, readings(before+choice+after)...)
		}
		return all
	}
	for _, word := range strings.Fields(synopsis) {
		if choices := strings.Split(word, "|"); len(choices) > 1 && !slices.Contains(choices, "") {
			var all []string
			for _, choice := range choices {
				all = append(all, readings(strings.Replace(synopsis, word, choice, 1))...)
			}
			return all
		}
	}
	return []string{synopsis}
}

// invocations are the calls of maestro in a piece of shell, each as its arguments.
func invocations(line string) ([][]string, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, err
	}
	var all [][]string
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		var args []string
		for _, word := range call.Args {
			args = append(args, plainWord(word))
		}
		switch args[0] {
		case "maestro":
			all = append(all, args[1:])
		case "maestro-worker":
			all = append(all, append([]string{"worker"}, args[1:]...))
		}
		return true
	})
	return all, nil
}

// plainWord is a word as a command gets it; what the shell would fill in is
// X, and what stands for one of several words is one of them.
func plainWord(word *syntax.Word) string {
	var b strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch p := part.(type) {
			case *syntax.Lit:
				b.WriteString(p.Value)
			case *syntax.SglQuoted:
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				add(p.Parts)
			default:
				b.WriteString("X")
			}
		}
	}
	add(word.Parts)
	switch b.String() {
	case "COMMAND":
		return "status"
	case "ACTION":
		return "retry"
	}
	return b.String()
}

// take has the command line take arguments as if they were typed, up to where a
// command begins its work. A mention may leave out what the command needs.
func take(args []string, whole bool) error {
	root := newRoot(newApp(Env{
		Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, IsTerminal: func(any) bool { return false },
		Now: time.Now,
	}))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	if err := parseFlags(cmd, rest); err != nil {
		return err
	}
	positional := cmd.Flags().Args()
	if !whole && len(positional) == 0 && (cmd.Runnable() || cmd.HasSubCommands()) {
		return nil
	}
	if err := cmd.ValidateArgs(positional); err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(positional) == 0 && cmd != root && cmd.Name() != "dev" { // dev works by itself, too
		return fmt.Errorf("`%s` needs a subcommand", cmd.CommandPath())
	}
	if !whole {
		return nil
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateFlagGroups()
}

// parseFlags parses flags; placeholders that stand for numbers are taken as one.
func parseFlags(cmd *cobra.Command, args []string) error {
	err := cmd.ParseFlags(args)
	for i, arg := range args {
		if err == nil || i == 0 || !placeholder.MatchString(arg) || !strings.HasPrefix(args[i-1], "-") {
			continue
		}
		numbered := slices.Clone(args)
		numbered[i] = "1"
		err = cmd.ParseFlags(numbered)
	}
	return err
}

// TestWhatPagesSayParses has the command line take every line that a page says of it.
func TestWhatPagesSayParses(t *testing.T) {
	t.Parallel()
	pages := []string{"../../../README.md", "../../../CONTRIBUTING.md", "../../../CHANGELOG.md"}
	for _, pattern := range []string{"../../../docs/*.md", "../../../docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		pages = append(pages, more...)
	}
	taken := 0
	for _, page := range pages {
		for _, w := range writtenIn(t, page) {
			calls, err := invocations(w.line)
			if err != nil {
				t.Errorf("%s: %s: no shell: %v", w.at, w.line, err)
			}
			for _, args := range calls {
				taken++
				if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "…") }) {
					continue // it leaves something out
				}
				if err := take(args, w.whole); err != nil {
					t.Errorf("%s: maestro %s: %v", w.at, strings.Join(args, " "), err)
				}
			}
		}
	}
	require.Greater(t, taken, 150)
}

// TestFieldsAreInThePage looks for every field of the documents that people's programs
// read.
func TestFieldsAreInThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(t, err)
	_, fields, ok := strings.Cut(string(page), "\n## JSON\n")
	require.True(t, ok)
	documents := []any{
		session.Status{},
		session.PhaseStatus{},
		session.AssignmentStatus{},
		session.AttemptFailure{},
		session.Request{},
		session.Ticket{},
		cost.Usage{},
		session.BreakerWait{},
		session.PlanEntry{},
		session.Origin{},
		session.BreakerStatus{},
		spec.Breaker{},
	}
	for _, document := range documents {
		for f := range reflect.TypeOf(document).Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name != "-" && !strings.Contains(fields, "`"+name+"`") {
				t.Errorf("the page does not have %s of %T", name, document)
			}
		}
	}
}
