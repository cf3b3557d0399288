package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/maestro-hive/maestro/internal/team"
)

const (
	// maxScript bounds a script, in bytes.
	maxScript = 16 << 20
	// maxDelay bounds what one turn takes.
	maxDelay = team.Duration(24 * time.Hour)
	// anyone is the key of plays for every assignment.
	anyone = "*"
)

// parseScript reads a script strictly. Each fault in the error names file, line
// and column; those that are not about YAML itself are reported together.
func parseScript(name string, data []byte) (*script, error) {
	if len(data) > maxScript {
		return nil, fmt.Errorf("%s: has %d bytes; a script has at most %d", name, len(data), maxScript)
	}
	var s script
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(&s); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s:1:1: is empty; a script has a version and plays", name)
		}
		return nil, positioned(name, err)
	}
	faults := s.faults()
	if len(faults) == 0 {
		return &s, nil
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, positioned(name, err)
	}
	errs := make([]error, len(faults))
	for i, f := range faults {
		line, column := locate(tree, f.Path)
		errs[i] = fmt.Errorf("%s:%d:%d: %s %s", name, line, column, f.Path, f.Message)
	}
	return nil, errors.Join(errs...)
}

// positioned says where in the file an error of the YAML package is.
func positioned(name string, err error) error {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil || e.GetToken().Position == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	at := e.GetToken().Position
	_, excerpt, _ := strings.Cut(strings.TrimRight(e.FormatError(false, true), "\n"), "\n")
	return fmt.Errorf("%s:%d:%d: %s\n%s", name, at.Line, at.Column, e.GetMessage(), excerpt)
}

// locate finds where a path is in the file: its own place, or that of the
// nearest thing around it that is there.
func locate(tree *ast.File, path string) (line, column int) {
	for ; path != ""; path = parentPath(path) {
		p, err := yaml.PathString(path)
		if err != nil {
			continue
		}
		node, err := p.FilterFile(tree)
		if err != nil || node == nil || node.GetToken() == nil || node.GetToken().Position == nil {
			continue
		}
		at := node.GetToken().Position
		return at.Line, at.Column
	}
	return 1, 1
}

// parentPath cuts the last step off a path.
func parentPath(path string) string {
	if quoted, ok := strings.CutSuffix(path, "'"); ok {
		return path[:max(strings.LastIndex(quoted, ".'"), 0)]
	}
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// faults returns what is wrong with a script that could be read.
func (s *script) faults() []team.Fault {
	v := &validator{}
	if s.Version != 1 {
		v.add("$.version", "is %d; write `version: 1`", s.Version)
	}
	if len(s.Plays) == 0 {
		v.add("$.plays", "is empty; add a list of plays under phase/persona, persona or \"*\"")
	}
	for _, key := range slices.Sorted(maps.Keys(s.Plays)) {
		path := team.FieldPath("$.plays", key)
		v.playKey(path, key)
		if len(s.Plays[key]) == 0 {
			v.add(path, "is empty; list at least one play")
		}
		for i, p := range s.Plays[key] {
			v.play(team.ItemPath(path, i), p)
		}
	}
	return v.faults
}

func (v *validator) check(path string, err error) {
	if err != nil {
		v.add(path, "%s", err.Error())
	}
}

func (v *validator) playKey(path, key string) {
	if key == anyone {
		return
	}
	parts := strings.Split(key, "/")
	if len(parts) > 2 {
		v.add(path, "is for nobody; write phase/persona, persona or \"*\"")
		return
	}
	for _, part := range parts {
		v.check(path, team.CheckName(part))
	}
}

func (v *validator) play(path string, p scriptPlay) {
	if p.Round < 0 {
		v.add(path+".round", "is %d; rounds count from 1, and left out means any", p.Round)
	}
	if p.Attempt < 0 {
		v.add(path+".attempt", "is %d; attempts count from 1, and left out means any", p.Attempt)
	}
	if p.Feedback != "" && !team.ValidCategory(p.Feedback) {
		v.add(path+".feedback", "%q is none of the failure categories%s", team.Shorten(string(p.Feedback), 80), categoryHint(p.Feedback))
	}
	for i, t := range p.Turns {
		v.turn(team.ItemPath(path+".turns", i), t)
	}
	v.check(path+".decisions", team.CheckDecisions(p.Decisions))
	v.check(path+".usage", p.Usage.usage().Validate())
	v.check(path+".sends_back.reasons", p.SendsBack.check())
	if p.SendsBack != nil && p.Fail != nil {
		v.add(path+".fail", "stands beside sends_back; a play either fails or sends work back")
	}
	if p.Fail != nil {
		v.check(path+".fail.category", (&resultError{Category: p.Fail.Category}).check())
	}
}

func (v *validator) turn(path string, t scriptTurn) {
	if t.Delay < 0 || t.Delay > maxDelay {
		v.add(path+".delay", "is %s; it must be between 0s and %s", t.Delay, maxDelay)
	}
	v.check(path+".usage", t.Usage.usage().Validate())
	if t.Crash && t.Hang {
		v.add(path+".hang", "stands beside crash; an agent does one of them")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Files)) {
		at, f := team.FieldPath(path+".files", name), t.Files[name]
		v.check(at, checkPath(name))
		if f.Link != "" && (f.Content != "" || f.Append || f.Executable) || f.Delete && f != (scriptFile{Delete: true}) {
			v.add(at, "is several things at once; give it content, or a link, or delete it")
		}
	}
}

// checkPath refuses paths that are not plainly inside the tree.
func checkPath(name string) error {
	if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." || strings.ContainsAny(name, "\x00\\") {
		return fmt.Errorf("%q is not a path inside the work; write it relative and plainly, like docs/design.md", team.Shorten(name, 80))
	}
	return nil
}
