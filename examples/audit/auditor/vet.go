package main

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

// vetDocument is what go vet finds.
type vetDocument struct {
	Findings []problem `json:"findings"`
	// Unvetted is why packages, or their tests, could not be looked at.
	Unvetted []problem `json:"unvetted"`
}

// vet has go vet look at every package that it can look at, tests included.
func (a *auditor) vet() (result, error) {
	l, err := a.loadPackages()
	if err != nil {
		return result{}, err
	}
	doc := vetDocument{Findings: []problem{}, Unvetted: slices.Concat([]problem{}, l.problems, l.testProblems)}
	if len(l.soundWithTests) > 0 {
		a.say("vetting %s", count(len(l.soundWithTests), "package"))
		c, err := a.goCommand(append([]string{"vet", "-json"}, l.soundWithTests...)...)
		if err != nil {
			return result{}, err
		}
		findings, rest, err := a.findings(c.output())
		if err != nil {
			return result{}, err
		}
		doc.Findings = append(doc.Findings, findings...)
		if !c.ok {
			doc.Unvetted = distinct(append(doc.Unvetted, a.problemsOf(rest)...))
		}
	}
	summary := count(len(doc.Findings), "finding") + " of go vet."
	if len(doc.Unvetted) > 0 {
		summary += " Not everything could be looked at: " + doc.Unvetted[0].String()
	}
	return result{Summary: summary}, a.save("vet.json", doc)
}

// findings reads what go vet -json prints: for each package an object of findings by
// analyzer, among what is wrong with others. Which stream has them is not the same in
// all versions. The rest of the output is returned, too.
func (a *auditor) findings(output string) (findings []problem, rest string, err error) {
	for output != "" {
		line, after, _ := strings.Cut(output, "\n")
		if line != "{" && line != "{}" {
			rest, output = rest+line+"\n", after
			continue
		}
		decoder := json.NewDecoder(strings.NewReader(output))
		var packages map[string]map[string]json.RawMessage
		if err := decoder.Decode(&packages); err != nil {
			return nil, "", errors.Join(errors.New("go vet prints what is no JSON"), err)
		}
		for _, pkg := range slices.Sorted(maps.Keys(packages)) {
			for _, analyzer := range slices.Sorted(maps.Keys(packages[pkg])) {
				more, failed := a.findingsOf(pkg, analyzer, packages[pkg][analyzer])
				findings, rest = append(findings, more...), rest+failed
			}
		}
		output = output[decoder.InputOffset():]
	}
	return distinct(findings), rest, nil
}

// findingsOf reads those of one analyzer, which are a list, or an object that says
// why it has failed.
func (a *auditor) findingsOf(pkg, analyzer string, data json.RawMessage) (findings []problem, failed string) {
	var diagnostics []struct{ Posn, Message string }
	if err := json.Unmarshal(data, &diagnostics); err != nil {
		return nil, pkg + ": " + analyzer + ": " + string(data) + "\n"
	}
	own, _, _ := strings.Cut(pkg, " ")
	for _, d := range diagnostics {
		p := problem{Package: own, Message: d.Message}
		if placed := parseProblems(d.Posn+": x", a.root); len(placed) == 1 {
			p.File, p.Line, p.Column = placed[0].File, placed[0].Line, placed[0].Column
		}
		p.Analyzer = analyzer
		findings = append(findings, p)
	}
	return findings, ""
}
