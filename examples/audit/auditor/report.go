package main

import (
	"errors"
	"fmt"
	"slices"
)

// report is all that was found, in one document.
type report struct {
	Requirement string        `json:"requirement"`
	Inventory   reportedTree  `json:"inventory"`
	Build       buildDocument `json:"build"`
	Vet         vetDocument   `json:"vet"`
	Tests       reportedTests `json:"tests"`
	API         reportedAPI   `json:"api"`
	Packages    []row         `json:"packages"`
}

// reportedTree is the inventory without its packages, which are rows.
type reportedTree struct {
	Module        string    `json:"module"`
	Requires      string    `json:"requires_go"`
	Toolchain     string    `json:"toolchain"`
	Platform      string    `json:"platform"`
	Vendored      bool      `json:"vendored"`
	Packages      int       `json:"packages"`
	NestedModules []string  `json:"nested_modules"`
	ExcludedFiles []string  `json:"excluded_go_files"`
	Totals        sizes     `json:"totals"`
	Problems      []problem `json:"problems"`
}

// reportedTests is what go test says, without the packages.
type reportedTests struct {
	testCounts
	Coverage statements    `json:"coverage"`
	Percent  *float64      `json:"coverage_percent"`
	Failures []testFailure `json:"failures"`
	Problems []problem     `json:"problems"`
}

// reportedAPI is what is exported, without the packages.
type reportedAPI struct {
	All    exported `json:"all"`
	Public exported `json:"public"`
}

// row is all that is known of a package.
type row struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Kind string `json:"kind"`
	Cgo  bool   `json:"cgo"`
	sizes
	// Builds: nothing keeps it from being compiled.
	Builds      bool       `json:"builds"`
	VetFindings int        `json:"vet_findings"`
	Outcome     string     `json:"tests"`
	Tests       testCounts `json:"test_counts"`
	Coverage    statements `json:"coverage"`
	Percent     *float64   `json:"coverage_percent"`
	Exported    exported   `json:"exported"`
}

// report puts together what the others have found, for programs and for people.
func (a *auditor) report() (result, error) {
	var inv inventory
	var tests testDocument
	var surface apiDocument
	r := report{Requirement: a.brief.Requirement}
	if err := errors.Join(a.load("inventory.json", &inv), a.load("build.json", &r.Build), a.load("vet.json", &r.Vet),
		a.load("tests.json", &tests), a.load("api.json", &surface)); err != nil {
		return result{}, err
	}
	r.Inventory = reportedTree{
		Module: inv.Module, Requires: inv.Requires, Toolchain: inv.Toolchain, Platform: inv.Platform, Vendored: inv.Vendored,
		Packages: len(inv.Packages), NestedModules: inv.Nested, ExcludedFiles: inv.Excluded, Totals: inv.Totals, Problems: inv.Problems,
	}
	r.Tests = reportedTests{
		testCounts: tests.Totals, Coverage: tests.Coverage, Percent: tests.Percent, Failures: tests.Failures, Problems: tests.Problems,
	}
	r.API = reportedAPI{All: surface.Totals, Public: surface.Public}
	for _, p := range inv.Packages {
		r.Packages = append(r.Packages, rowOf(p, r, tests, surface))
	}
	summary := "The module builds."
	if !r.Build.Builds {
		summary = "The module does not build: " + r.Build.Problems[0].String() + "."
	}
	summary += fmt.Sprintf(" %s, %s of go vet, %s of %d failed, coverage %s.", count(len(inv.Packages), "package"),
		count(len(r.Vet.Findings), "finding"), count(r.Tests.Failed, "test"), r.Tests.Run, percentage(r.Tests.Percent))
	return result{Summary: summary}, errors.Join(a.save("report.json", r), a.write("report.md", []byte(r.markdown())))
}

func rowOf(p packageInfo, r report, tests testDocument, surface apiDocument) row {
	out := row{Path: p.Path, Name: p.Name, Kind: p.Kind, Cgo: p.Cgo, sizes: p.sizes, Outcome: "not run"}
	here := func(found problem) bool { return found.Package == p.Path }
	ofNone := slices.ContainsFunc(r.Build.Problems, func(found problem) bool { return found.Package == "" })
	out.Builds = !ofNone && !slices.Contains(r.Build.Broken, p.Path)
	for _, finding := range r.Vet.Findings {
		if here(finding) {
			out.VetFindings++
		}
	}
	if i := slices.IndexFunc(tests.Packages, func(t testedPackage) bool { return t.Path == p.Path }); i >= 0 {
		t := tests.Packages[i]
		out.Outcome, out.Tests, out.Coverage, out.Percent = t.Outcome, t.testCounts, t.Coverage, t.Coverage.percent()
	}
	if out.TestFiles == 0 && out.Builds {
		out.Outcome = "no tests" // go test calls it failed if go vet finds something in it
	}
	if i := slices.IndexFunc(surface.Packages, func(s packageAPI) bool { return s.Path == p.Path }); i >= 0 {
		out.Exported = surface.Packages[i].exported
	}
	return out
}
