package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// testDocument is what go test says.
type testDocument struct {
	Totals testCounts `json:"totals"`
	// Coverage is that of all packages together. Percent is what go tool cover makes
	// of it, which leaves out statements that are in no declared function; null: there
	// are none.
	Coverage statements      `json:"coverage"`
	Percent  *float64        `json:"coverage_percent"`
	Packages []testedPackage `json:"packages"`
	Failures []testFailure   `json:"failures"`
	// Problems are what kept tests from being compiled.
	Problems []problem `json:"problems"`
}

// testCounts counts tests, each of their subtests, examples and fuzz targets' seeds
// included, as go test -json does.
type testCounts struct {
	Run     int `json:"run"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	// TopLevel are those among Run that are no subtests.
	TopLevel int `json:"top_level"`
}

func (c *testCounts) add(o testCounts) {
	c.Run += o.Run
	c.Passed += o.Passed
	c.Failed += o.Failed
	c.Skipped += o.Skipped
	c.TopLevel += o.TopLevel
}

// testedPackage is how the tests of a package have ended.
type testedPackage struct {
	Path string `json:"path"`
	// Outcome is passed, failed, no tests or not run.
	Outcome  string     `json:"outcome"`
	Seconds  float64    `json:"seconds"`
	Coverage statements `json:"coverage"`
	testCounts
}

// testFailure is a test that has failed; without a name, its package has, like by a
// panic or by exiting.
type testFailure struct {
	Package string `json:"package"`
	Test    string `json:"test,omitempty"`
	Output  string `json:"output"`
}

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64
}

// test runs all tests with coverage, in a copy of the module: what tests leave behind
// is no part of it.
func (a *auditor) test() (result, error) {
	scratch, err := os.MkdirTemp(variable(a.environ, "TMPDIR"), "audit-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // it is below TMPDIR, which goes as a whole
	at, profile := filepath.Join(scratch, filepath.Base(scratch)), filepath.Join(scratch, "coverage.out")
	if err := os.CopyFS(at, os.DirFS(a.root)); err != nil {
		return result{}, fmt.Errorf("copy the module: %w", err)
	}
	copied := &auditor{root: at, environ: toolchainEnvironment(a.environ, at), progress: a.progress}
	run := newTestRun(copied)
	stderr, ok, err := copied.stream(run.read, "test", "-json", "-coverprofile="+profile, "./...")
	if err != nil {
		return result{}, err
	}
	doc := run.document(stderr, ok)
	data, err := os.ReadFile(profile)
	if errors.Is(err, os.ErrNotExist) {
		data, err = []byte("mode: set\n"), nil
	}
	if err != nil {
		return result{}, err
	}
	if err := doc.cover(string(data)); err != nil {
		return result{}, err
	}
	if doc.Percent, err = copied.total(profile, doc.Coverage); err != nil {
		return result{}, err
	}
	summary := fmt.Sprintf("%s run: %d passed, %d failed, %d skipped; coverage %s.", count(doc.Totals.Run, "test"),
		doc.Totals.Passed, doc.Totals.Failed, doc.Totals.Skipped, percentage(doc.Percent))
	if len(doc.Problems) > 0 {
		summary += " Not everything could be run: " + doc.Problems[0].String()
	}
	return result{Summary: summary}, errors.Join(a.write("coverage.out", data), a.save("tests.json", doc))
}

// cover adds what a coverage profile says.
func (d *testDocument) cover(profile string) error {
	packages, err := readProfile(strings.NewReader(profile))
	for i, p := range d.Packages {
		d.Packages[i].Coverage = packages[p.Path]
	}
	for _, s := range packages {
		d.Coverage.Total += s.Total
		d.Coverage.Covered += s.Covered
	}
	return err
}

// testRun follows go test -json.
type testRun struct {
	auditor  *auditor
	packages map[string]*testedPackage
	// outputs are those of tests under way, outcomes how the others have ended.
	outputs  map[testID]*tail
	outcomes map[testID]string
	failures []testFailure
	// builds is what compiling has printed, in its order, and text what else was there.
	builds, text strings.Builder
}

type testID struct{ pkg, test string }

func newTestRun(a *auditor) *testRun {
	return &testRun{auditor: a, packages: map[string]*testedPackage{}, outputs: map[testID]*tail{}, outcomes: map[testID]string{}}
}

// read takes in all that go test prints.
func (r *testRun) read(stdout io.Reader) error {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 && json.Unmarshal(line, &e) == nil {
			r.take(e)
		} else if r.text.Len() < maxOutput {
			r.text.Write(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *testRun) take(e event) {
	if e.Action == "build-output" {
		if r.builds.Len() < maxOutput {
			r.builds.WriteString(e.Output)
		}
		return
	}
	if e.Package == "" {
		return
	}
	if r.packages[e.Package] == nil {
		r.packages[e.Package] = &testedPackage{Path: e.Package, Outcome: "no tests"}
	}
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "run":
		r.outputs[id] = &tail{}
	case "output":
		if r.outputs[id] == nil {
			r.outputs[id] = &tail{}
		}
		r.outputs[id].add(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.end(id, e.Action)
		}
	}
}

// end notes how a test has ended.
func (r *testRun) end(id testID, action string) {
	r.outcomes[id] = action
	p := r.packages[id.pkg]
	p.Run++
	if !strings.Contains(id.test, "/") {
		p.TopLevel++
	}
	switch action {
	case "pass":
		p.Passed++
	case "skip":
		p.Skipped++
	default:
		p.Failed++
		r.failures = append(r.failures, testFailure{Package: id.pkg, Test: id.test, Output: r.said(id)})
	}
	delete(r.outputs, id)
}

// endPackage notes how a package's tests have ended. Those that it did not see to
// their end have failed.
func (r *testRun) endPackage(e event) {
	p := r.packages[e.Package]
	p.Seconds = e.Elapsed
	said := r.said(testID{e.Package, ""})
	var cut []string
	for id := range r.outputs {
		if id.pkg == e.Package && id.test != "" {
			cut = append(cut, id.test)
		}
	}
	for _, test := range slices.Sorted(slices.Values(cut)) {
		id := testID{e.Package, test}
		r.outputs[id].add("(did not end)\n" + said)
		r.end(id, "fail")
	}
	delete(r.outputs, testID{e.Package, ""})
	switch {
	case e.Action == "fail" && (e.FailedBuild != "" || strings.Contains(said, " failed]")):
		p.Outcome = "not run"
	case e.Action == "fail":
		p.Outcome = "failed"
		if p.Failed == 0 {
			r.failures = append(r.failures, testFailure{Package: e.Package, Output: said})
		}
	case p.Run > 0:
		p.Outcome = "passed"
	}
	r.auditor.say("%s: %s, %d run, %d failed", p.Path, p.Outcome, p.Run, p.Failed)
}

// said is what a test has printed, without the path of the copy that it ran in.
func (r *testRun) said(id testID) string {
	if r.outputs[id] == nil {
		return ""
	}
	return strings.ReplaceAll(r.outputs[id].String(), r.auditor.root+"/", "")
}

// document sums up. A command that has failed for nothing that is known so far has
// said why on standard error.
func (r *testRun) document(stderr string, ok bool) testDocument {
	doc := testDocument{Packages: []testedPackage{}, Failures: append([]testFailure{}, r.failures...), Problems: []problem{}}
	for _, path := range slices.Sorted(maps.Keys(r.packages)) {
		doc.Packages = append(doc.Packages, *r.packages[path])
		doc.Totals.add(r.packages[path].testCounts)
	}
	slices.SortStableFunc(doc.Failures, func(x, y testFailure) int {
		return strings.Compare(x.Package+"\n"+x.Test, y.Package+"\n"+y.Test)
	})
	printed := r.builds.String() + r.text.String() + stderr
	unbuilt := slices.ContainsFunc(doc.Packages, func(p testedPackage) bool { return p.Outcome == "not run" })
	if unbuilt || !ok && len(doc.Failures) == 0 {
		doc.Problems = append(doc.Problems, r.auditor.problemsOf(printed)...)
	}
	return doc
}

// maxTail is how much of a test's output is kept, in bytes: the end says what is wrong.
const maxTail = 4 << 10

// tail keeps the end of a text.
type tail struct {
	text string
	cut  bool
}

func (t *tail) add(more string) {
	t.text += more
	if len(t.text) > 2*maxTail {
		t.text, t.cut = t.text[len(t.text)-maxTail:], true
	}
}

func (t *tail) String() string {
	text, cut := t.text, t.cut
	if len(text) > maxTail {
		text, cut = text[len(text)-maxTail:], true
	}
	text = strings.ToValidUTF8(text, "")
	if cut {
		text = "…\n" + text
	}
	return text
}
