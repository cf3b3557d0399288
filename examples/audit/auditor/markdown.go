package main

import (
	"fmt"
	"slices"
	"strings"
)

// maxListed bounds how many findings of a sort the page shows; the documents beside
// it have all of them.
const maxListed = 200

// page is a Markdown text.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// markdown is the report for people.
func (r report) markdown() string {
	var p page
	p.line("# Audit of `%s`\n", r.Inventory.Module)
	if r.Requirement != "" {
		p.line("> %s\n", strings.ReplaceAll(strings.TrimSpace(r.Requirement), "\n", "\n> "))
	}
	r.verdict(&p)
	r.figures(&p)
	r.table(&p)
	p.problems("What does not build", r.Build.Problems)
	p.problems("What go list says", without(r.Inventory.Problems, r.Build.Problems))
	p.problems("Findings of go vet", r.Vet.Findings)
	p.problems("What go vet could not look at", without(r.Vet.Unvetted, r.Build.Problems))
	p.problems("Tests that could not be run", r.untested())
	p.failures(r.Tests.Failures)
	p.list("Go files of no package on this platform", r.Inventory.ExcludedFiles)
	p.list("Other modules below it, left out", r.Inventory.NestedModules)
	return p.String()
}

// untested is what keeps tests alone from being compiled.
func (r report) untested() []problem {
	ofTests := slices.DeleteFunc(slices.Clone(r.Tests.Problems), func(p problem) bool {
		return slices.ContainsFunc(r.Build.Problems, func(b problem) bool { return b.Package != "" && b.Package == p.Package })
	})
	return without(ofTests, slices.Concat(r.Build.Problems, r.Vet.Findings))
}

// verdict says in a sentence what a reader has come for.
func (r report) verdict(p *page) {
	switch {
	case !r.Build.Builds:
		p.line("**It does not build**: %s\n", code(r.Build.Problems[0].String()))
	case r.Tests.Failed > 0 || len(r.Tests.Failures) > 0:
		p.line("**It builds, and tests fail**: %d of %d.\n", r.Tests.Failed, r.Tests.Run)
	case r.Tests.Run == 0:
		p.line("**It builds. No test was run.**\n")
	default:
		p.line("**It builds, and its tests pass.**\n")
	}
}

func (r report) figures(p *page) {
	t, all, public := r.Inventory.Totals, r.API.All, r.API.Public
	p.line("| | |\n|---|---|")
	p.line("| Go | %s asked for, %s used, %s |", or(r.Inventory.Requires, "nothing"), or(r.Inventory.Toolchain, "nothing"),
		r.Inventory.Platform)
	p.line("| Packages | %d |", r.Inventory.Packages)
	p.line("| Go files | %d, %d of them tests, %d generated; %d of no package |",
		t.CodeFiles+t.TestFiles, t.TestFiles, t.GeneratedFiles, len(r.Inventory.ExcludedFiles))
	p.line("| Lines | %d of code, %d of tests |", t.CodeLines, t.TestLines)
	p.line("| Build | %s |", map[bool]string{true: "builds", false: count(len(r.Build.Problems), "problem")}[r.Build.Builds])
	p.line("| go vet | %s |", count(len(r.Vet.Findings), "finding"))
	p.line("| Tests | %d run (%d without subtests): %d passed, %d failed, %d skipped |", r.Tests.Run, r.Tests.TopLevel,
		r.Tests.Passed, r.Tests.Failed, r.Tests.Skipped)
	p.line("| Coverage | %s%s |", r.coverage(), r.uncovered())
	p.line("| Exported | %d identifiers: %d funcs, %d types, %d methods, %d consts, %d vars |", all.sum(), all.Funcs, all.Types,
		all.Methods, all.Consts, all.Vars)
	p.line("| Of these, importable | %d identifiers: %d funcs, %d types, %d methods, %d consts, %d vars |\n",
		public.sum(), public.Funcs, public.Types, public.Methods, public.Consts, public.Vars)
}

// coverage says how much go tool cover finds covered, and what go test counts.
func (r report) coverage() string {
	if r.Tests.Coverage.Total == 0 {
		return percentage(nil)
	}
	return fmt.Sprintf("%s of statements in functions; %d of %d in all", percentage(r.Tests.Percent), r.Tests.Coverage.Covered,
		r.Tests.Coverage.Total)
}

// uncovered says which packages the coverage knows nothing of, because their tests
// broke off.
func (r report) uncovered() string {
	var names []string
	for _, k := range r.Packages {
		if k.TestFiles > 0 && k.Coverage.Total == 0 && (k.Outcome == "failed" || k.Outcome == "not run") {
			names = append(names, code(k.Path))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return ", without " + shorten(strings.Join(names, ", "), 500) + ", whose tests were not run to their end"
}

// table has a line for each package.
func (r report) table(p *page) {
	p.line("## Packages\n")
	if len(r.Packages) == 0 {
		p.line("None.\n")
		return
	}
	p.line("| package | kind | builds | files | lines | test files | test lines | vet | tests | run | failed | skipped | coverage " +
		"| exported |")
	p.line("|---|---|---|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|")
	for _, k := range r.Packages {
		p.line("| `%s` | %s | %s | %d | %d | %d | %d | %d | %s | %d | %d | %d | %s | %d |", k.Path, k.Kind,
			map[bool]string{true: "yes", false: "**no**"}[k.Builds],
			k.CodeFiles, k.CodeLines, k.TestFiles, k.TestLines, k.VetFindings, k.Outcome, k.Tests.Run, k.Tests.Failed, k.Tests.Skipped,
			percentage(k.Percent), k.Exported.sum())
	}
	p.line("")
}

// problems lists what was found, each with its place.
func (p *page) problems(title string, problems []problem) {
	var items []string
	for _, found := range problems {
		item := code(found.String())
		if found.Analyzer != "" {
			item += " (" + found.Analyzer + ")"
		}
		items = append(items, item)
	}
	p.items(title, items)
}

func (p *page) list(title string, names []string) {
	var items []string
	for _, name := range names {
		items = append(items, code(name))
	}
	p.items(title, items)
}

func (p *page) items(title string, items []string) {
	if len(items) == 0 {
		return
	}
	p.line("## %s\n", title)
	for _, item := range items[:min(len(items), maxListed)] {
		p.line("- %s", item)
	}
	if more := len(items) - maxListed; more > 0 {
		p.line("- and %d more", more)
	}
	p.line("")
}

// failures shows the end of what failing tests have printed.
func (p *page) failures(failures []testFailure) {
	if len(failures) == 0 {
		return
	}
	p.line("## Failing tests\n")
	for i, f := range failures {
		if i == maxListed {
			p.line("And %d more.\n", len(failures)-i)
			return
		}
		p.line("### `%s` %s\n", f.Package, f.Test)
		for line := range strings.Lines(f.Output) {
			p.line("    %s", strings.TrimRight(line, "\n"))
		}
		p.line("")
	}
}

// code sets a text as code, on one line.
func code(text string) string {
	return "`" + strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "`", "'") + "`"
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
