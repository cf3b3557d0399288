package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

const (
	// maxResult bounds the result of a tool, in bytes.
	maxResult = 48 << 10
	// maxCheckOutput bounds the end of a check's output in a result, in bytes.
	maxCheckOutput = 16 << 10
	// maxListed bounds the entries of a listing, and maxMatches the matches of a search.
	maxListed, maxMatches = 1000, 200
	// maxLine bounds a line of a search's result, and maxSearched the total content that a search
	// reads, in bytes.
	maxLine, maxSearched = 300, 64 << 20
	// maxWalked bounds the number of files that a search visits.
	maxWalked = 20_000
)

// done is the result of the tools of one turn.
type done struct {
	Results []wire.Result `json:"results"`
	// Changed: a file was written or deleted.
	Changed bool `json:"changed,omitempty"`
	// Decisions were recorded, and Finished is the summary with which the work was finished.
	Decisions map[string]string `json:"decisions,omitempty"`
	Finished  *string           `json:"finished,omitempty"`
	// SendsBack has the reasons if the work was finished by sending work back.
	SendsBack []string `json:"sends_back,omitempty"`
	// Kept says which versions of conflicts are kept.
	Kept map[string]session.Kept `json:"kept,omitempty"`
	// Reminded: the model was told what is missing instead.
	Reminded bool `json:"reminded,omitempty"`
	// Malformed is the number of invalid tool calls at the end of the turn.
	Malformed int `json:"malformed,omitempty"`
}

// worker executes the tool calls of one turn.
type worker struct {
	*run
	done *done
}

// malformed is the error of an invalid tool call.
type malformed struct{ wrong }

func malformedf(format string, args ...any) error {
	return malformed{wrong{fmt.Sprintf(format, args...)}}
}

// work executes the tool calls of an answer in order. An error is not the model's fault, and ends the attempt.
func (w *worker) work(ctx context.Context, calls []wire.Call) (done, error) {
	w.done = &done{Decisions: map[string]string{}, Malformed: w.malformed}
	failed := false
	for _, call := range calls {
		said, err := w.call(ctx, call)
		var bad malformed
		var mistake wrong
		switch {
		case errors.As(err, &bad):
			w.done.Malformed++
			said = bad.text
		case errors.As(err, &mistake):
			said, w.done.Malformed = mistake.text, 0
		case err != nil:
			return done{}, err
		default:
			w.done.Malformed = 0
		}
		failed = failed || err != nil
		w.done.Results = append(w.done.Results, wire.Result{ID: call.ID, Text: w.present(said), Error: err != nil})
		if call.Name != toolFinish { // its result depends on the other calls
			w.writeResult(call, w.done.Results[len(w.done.Results)-1])
		}
	}
	if w.done.Finished != nil && failed {
		w.done.Finished, w.done.SendsBack, w.done.Kept = nil, nil, nil
		for i, call := range calls {
			if call.Name == toolFinish && !w.done.Results[i].Error {
				w.done.Results[i].Text = "Not ended: another call of the same answer failed. Look at it, and finish again."
				w.done.Results[i].Error = true
			}
		}
	}
	for i, call := range calls {
		if call.Name == toolFinish {
			w.writeResult(call, w.done.Results[i])
		}
	}
	return *w.done, nil
}

// present prepares a tool's text for the model.
func (w *worker) present(said string) string {
	said = w.Mask(strings.ToValidUTF8(said, "\uFFFD"))
	if said == "" {
		return "(nothing)"
	}
	return textfmt.Shorten(said, maxResult)
}

// parse decodes a call's arguments.
func parse(call wire.Call) (arguments, error) {
	var a arguments
	if call.Broken != "" {
		return a, malformedf("the arguments are no JSON object, but begin with: %s", textfmt.Shorten(call.Broken, 200))
	}
	var wrongType *json.UnmarshalTypeError
	err := json.Unmarshal([]byte(call.Arguments), &a)
	switch {
	case errors.As(err, &wrongType):
		return a, malformedf("%s must not be a JSON %s", wrongType.Field, wrongType.Value)
	case err != nil:
		return a, malformedf("the arguments cannot be read: %v", err)
	}
	return a, nil
}

func (w *worker) call(ctx context.Context, call wire.Call) (string, error) {
	a, err := parse(call)
	if err != nil {
		return "", err
	}
	switch call.Name {
	case toolList, toolSearch:
		a.Path, err = directory(a.Path)
	case toolRead, toolWrite, toolEdit, toolDelete:
		a.Path, err = clean(a.Path)
	}
	if err != nil {
		return "", err
	}
	switch call.Name {
	case toolList:
		return w.list(a)
	case toolSearch:
		return w.search(a)
	case toolRead:
		return w.read(a)
	case toolWrite:
		return w.write(call, a)
	case toolEdit:
		return w.edit(call, a)
	case toolDelete:
		return w.remove(a)
	case toolCheck:
		return w.check(ctx, a)
	case toolDecide:
		return w.decide(call, a)
	case toolFinish:
		return w.finish(a)
	}
	return "", malformedf("there is no tool %q; there are %s", textfmt.Shorten(call.Name, 80), strings.Join(toolNames(w.job), ", "))
}

func toolNames(job session.Job) []string {
	var names []string
	for _, t := range toolsFor(job) {
		names = append(names, t.Name)
	}
	return names
}

func (w *worker) list(a arguments) (string, error) {
	entries, more, err := w.tree.walk(a.Path, maxListed)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, e := range entries {
		switch {
		case e.info.IsDir():
			fmt.Fprintf(&b, "%s/\n", e.path)
		case e.info.Mode().IsRegular():
			fmt.Fprintf(&b, "%s (%d)\n", e.path, e.info.Size())
		default:
			target, _ := w.tree.root.Readlink(e.path) // none, if it is no link
			fmt.Fprintf(&b, "%s -> %s\n", e.path, target)
		}
	}
	if more {
		fmt.Fprintf(&b, "(there are more than these %d; list a directory below)\n", maxListed)
	}
	return b.String(), nil
}

// directory checks a path that may be omitted.
func directory(name string) (string, error) {
	if name == "" || name == "." || name == "./" || name == "/" {
		return ".", nil
	}
	return clean(name)
}

func (w *worker) search(a arguments) (string, error) {
	if a.Pattern == "" {
		return "", malformedf("pattern is missing")
	}
	pattern, err := regexp.Compile(a.Pattern)
	if err != nil {
		return "", wrongf("the pattern is no regular expression: %v", err)
	}
	entries, more, err := w.tree.walk(a.Path, maxWalked)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	matches, searched := 0, 0
	for _, e := range entries {
		if !e.info.Mode().IsRegular() {
			continue
		}
		content, err := w.tree.read(e.path)
		if err != nil {
			continue // binary, too large, or removed
		}
		if searched += len(content); searched > maxSearched {
			more = true
			break
		}
		for i, line := range strings.Split(w.Mask(content), "\n") {
			if !pattern.MatchString(line) {
				continue
			}
			if matches++; matches > maxMatches {
				fmt.Fprintf(&b, "(there are more than these %d; search for something narrower)\n", maxMatches)
				return b.String(), nil
			}
			fmt.Fprintf(&b, "%s:%d: %s\n", e.path, i+1, textfmt.Shorten(line, maxLine))
		}
	}
	if more {
		b.WriteString("(not everything was searched: there is too much; search in a directory below)\n")
	}
	if b.Len() == 0 {
		return "No line matches.", nil
	}
	return b.String(), nil
}

// read masks a file before it selects lines, so that no part of a secret is visible.
func (w *worker) read(a arguments) (string, error) {
	content, err := w.tree.read(a.Path)
	if err != nil {
		return "", err
	}
	if content == "" {
		return "(the file is empty)", nil
	}
	lines := strings.SplitAfter(w.Mask(content), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	first, last := max(a.From, 1), len(lines)
	if a.To > 0 {
		last = min(last, a.To)
	}
	if first > last {
		return "", wrongf("%s has %d lines; lines %d to %d are not among them", a.Path, len(lines), first, max(a.To, first))
	}
	var b strings.Builder
	for i := first; i <= last; i++ {
		line := lines[i-1]
		if b.Len() > 0 && b.Len()+len(line) > maxResult-100 {
			fmt.Fprintf(&b, "(cut before line %d of %d; read on from there)", i, len(lines))
			break
		}
		b.WriteString(line)
	}
	return b.String(), nil
}

func (w *worker) write(call wire.Call, a arguments) (string, error) {
	if a.Content == nil {
		return "", malformedf("content is missing")
	}
	return w.store(call, a.Path, *a.Content, a.Executable)
}

// store writes a file.
func (w *worker) store(call wire.Call, name, content string, executable *bool) (string, error) {
	if len(content) > maxWrite {
		return "", wrongf("the file would have %d bytes; at most %d can be written", len(content), maxWrite)
	}
	if w.Mask(content) != content {
		return "", wrongf("%s holds a secret, and files that are delivered must not: write it anew without, and refer to the "+
			"variable that holds it", name)
	}
	if err := w.tree.write(name, content, executable); err != nil {
		return "", err
	}
	w.done.Changed = true
	said := fmt.Sprintf("Wrote %s: %d bytes.", name, len(content))
	if call.Masked {
		said += " A secret in it was replaced: files must not hold any. Refer to the variable that holds it instead."
	}
	return said, nil
}

func (w *worker) edit(call wire.Call, a arguments) (string, error) {
	switch {
	case a.Old == nil || *a.Old == "":
		return "", malformedf("old is missing; to make a new file, use write")
	case a.New == nil:
		return "", malformedf("new is missing; to take the text out, give an empty one")
	}
	content, err := w.tree.read(a.Path)
	if err != nil {
		return "", err
	}
	switch n := strings.Count(content, *a.Old); n {
	case 1:
	case 0:
		return "", wrongf("old does not occur in %s; read the file and give the text exactly as it is there, with its white space",
			a.Path)
	default:
		return "", wrongf("old occurs %d times in %s; give more of what is around it, so that it is unique", n, a.Path)
	}
	return w.store(call, a.Path, strings.Replace(content, *a.Old, *a.New, 1), nil)
}

func (w *worker) remove(a arguments) (string, error) {
	if err := w.tree.remove(a.Path); err != nil {
		return "", err
	}
	w.done.Changed = true
	return "Deleted " + a.Path + ".", nil
}

// check runs one of the checks of the phase.
func (w *worker) check(ctx context.Context, a arguments) (string, error) {
	if !slices.Contains(w.job.Deliver.Checks, a.Name) || w.job.Try == nil {
		return "", malformedf("%q is no check of this work; there are: %s", textfmt.Shorten(a.Name, 80),
			strings.Join(w.job.Deliver.Checks, ", "))
	}
	output, err := w.job.Try(ctx, a.Name)
	if stopped := ended(ctx); stopped != nil {
		return "", stopped
	}
	said := textfmt.Tail(w.Mask(strings.ToValidUTF8(string(output), "\uFFFD")), maxCheckOutput)
	var f *failures.Failure
	switch {
	case errors.As(err, &f):
		if said == "" {
			said = f.Output
		}
		return "", wrongf("The check failed: %s\n%s", f.Message, said)
	case err != nil:
		return "", fmt.Errorf("run check %s: %w", a.Name, err)
	}
	return "The check passed.\n" + said, nil
}

func (w *worker) decide(call wire.Call, a arguments) (string, error) {
	if a.Value == nil {
		return "", malformedf("value is missing")
	}
	if call.Masked {
		return "", malformedf("the decision %q contains a secret; remove it", textfmt.Shorten(a.Name, 80))
	}
	all := maps.Clone(w.decided)
	maps.Copy(all, w.done.Decisions)
	all[a.Name] = *a.Value
	if err := session.CheckDecisions(all); err != nil {
		return "", malformedf("%v", err)
	}
	w.done.Decisions[a.Name] = *a.Value
	return "Recorded.", nil
}

// finish finishes the work. If a required file is missing, the model is told once; the second
// time the call succeeds, because a check may create the file. No file is required if work is
// sent back.
func (w *worker) finish(a arguments) (string, error) {
	if len(a.SendsBack) > 0 {
		return w.sendBack(a)
	}
	if !w.reminded {
		for _, pattern := range w.job.Deliver.Produces {
			found, err := w.tree.has(pattern)
			if err != nil || found {
				continue
			}
			w.done.Reminded = true
			return "", wrongf("Not ended: no file matches %s, which has to be there in the end. Create it under exactly that path, and "+
				"finish again.", pattern)
		}
	}
	if len(a.Kept) > 0 && len(w.job.Brief.Conflicts) == 0 {
		return "", malformedf("there is no conflict to settle; leave kept out")
	}
	if err := session.CheckKept(a.Kept); err != nil {
		return "", malformedf("%v", err)
	}
	w.done.Finished, w.done.Kept = &a.Summary, a.Kept
	return "Ended.", nil
}

func (w *worker) sendBack(a arguments) (string, error) {
	if w.job.Brief.MaySendBack == nil {
		return "", malformedf("this work may not send any back; leave sends_back out, and mend yourself what is wrong")
	}
	if err := session.CheckReasons(a.SendsBack); err != nil {
		return "", malformedf("sends_back: %v", err)
	}
	w.done.Finished, w.done.SendsBack = &a.Summary, a.SendsBack
	return "Sent back.", nil
}
