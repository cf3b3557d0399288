package hook

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// What the keys of a mapping begin with, besides the requirement.
const (
	requirement    = "requirement"
	decisionPrefix = "decision."
	labelPrefix    = "label."
)

// LabelHook is the label of every session of a hook. Its value is the hook's name.
const LabelHook = "hook"

// The labels that sessions of GitHub have besides.
const (
	labelRepository = "repository"
	labelIssue      = "issue"
)

const (
	// usualPointer is the default pointer of the requirement in a generic call.
	usualPointer = "/requirement"

	maxMapped  = 40
	maxPointer = 500
)

// Start is a session that a call starts.
type Start struct {
	Requirement string
	Decisions   map[string]string
	Labels      map[string]string
	// Subject is what the session is about, if each call about it finds the same session; empty: the
	// call starts a session of its own.
	Subject string
}

// Read returns the session that a verified call starts, or why it starts none. Both are empty for a
// call that only tests the hook. An unusable body is a [*PayloadError].
func Read(h access.Hook, header http.Header, body []byte) (start *Start, ignored string, err error) {
	p, err := parse(body)
	if err != nil {
		return nil, "", err
	}
	if h.Kind == access.HookGitHub {
		start, ignored = readGitHub(h, header.Get(headerGitHubEvent), p)
	} else {
		start, err = readGeneric(h, p)
	}
	if start != nil {
		labels := map[string]string{LabelHook: h.Name}
		maps.Copy(labels, h.Labels)
		maps.Copy(labels, start.Labels)
		start.Labels = labels
	}
	return start, ignored, err
}

func readGeneric(h access.Hook, p payload) (*Start, error) {
	s := &Start{Decisions: map[string]string{}, Labels: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(h.Map)) {
		text, err := p.required(h.Map[key])
		if err != nil {
			return nil, err
		}
		if name, ok := strings.CutPrefix(key, decisionPrefix); ok {
			s.Decisions[name] = text
			err = session.CheckDecisions(s.Decisions)
		} else if name, ok := strings.CutPrefix(key, labelPrefix); ok {
			s.Labels[name] = text
			err = session.CheckLabels(s.Labels)
		} else {
			s.Requirement = text
		}
		if err != nil {
			return nil, &PayloadError{h.Map[key], fmt.Sprintf("the value at %s: %v", h.Map[key], err)}
		}
	}
	return s, nil
}

// Complete returns a new hook with the defaults of its kind.
func Complete(h access.Hook) access.Hook {
	switch h.Kind {
	case access.HookGitHub:
		if len(h.On) == 0 {
			h.On = []string{onLabeled + "maestro", onComment + "/maestro"}
		}
	case access.HookGeneric:
		if h.Map = maps.Clone(h.Map); h.Map == nil {
			h.Map = map[string]string{}
		}
		if h.Map[requirement] == "" {
			h.Map[requirement] = usualPointer
		}
	}
	return h
}

// FieldError is an error in a field of a new hook.
type FieldError struct {
	Field string
	text  string
}

// Error says what is wrong.
func (e *FieldError) Error() string { return e.text }

// Check refuses a hook that cannot work, with a [*FieldError].
func Check(h access.Hook) error {
	wrong := func(field, format string, args ...any) error {
		return &FieldError{field, fmt.Sprintf(format, args...)}
	}
	if err := spec.CheckName(h.Name); err != nil {
		return wrong("name", "%v", err)
	}
	if h.Directory != "" {
		if err := spec.CheckName(h.Directory); err != nil {
			return wrong("directory", "%v", err)
		}
	}
	if err := session.CheckLabels(h.Labels); err != nil {
		return wrong("labels", "%v", err)
	}
	own := []string{LabelHook}
	switch h.Kind {
	case access.HookGitHub:
		if len(h.Map) > 0 {
			return wrong("map", "a hook of the kind github has no mapping; leave it out")
		}
		if err := checkEvents(h.On); err != nil {
			return wrong("on", "%v", err)
		}
		own = append(own, labelRepository, labelIssue)
	case access.HookGeneric:
		if len(h.On) > 0 || h.EachEvent {
			return wrong("on", "events are those of the kind github; leave them out")
		}
		if err := checkMap(h.Map); err != nil {
			return wrong("map", "%v", err)
		}
	default:
		return wrong("kind", "%q is not a kind of hook; use generic or github", textfmt.Shorten(string(h.Kind), 80))
	}
	return checkLabels(h, own)
}

// checkLabels refuses labels that a session would get twice, or too many.
func checkLabels(h access.Hook, own []string) error {
	labels := slices.Collect(maps.Keys(h.Labels))
	for key := range h.Map {
		if name, ok := strings.CutPrefix(key, labelPrefix); ok {
			labels = append(labels, name)
		}
	}
	labels = append(labels, own...)
	slices.Sort(labels)
	for i, name := range labels {
		if i > 0 && labels[i-1] == name {
			return &FieldError{"labels", fmt.Sprintf("label %s: the hook sets it already; choose another key", name)}
		}
	}
	if len(labels) > session.MaxLabels {
		return &FieldError{"labels", fmt.Sprintf("a session has %d labels at most, and the hook sets %d", session.MaxLabels,
			len(labels))}
	}
	return nil
}

func checkMap(mapping map[string]string) error {
	if len(mapping) > maxMapped {
		return fmt.Errorf("there are %d texts; %d at most are taken from a call", len(mapping), maxMapped)
	}
	for _, key := range slices.Sorted(maps.Keys(mapping)) {
		pointer := mapping[key]
		if len(pointer) > maxPointer || pointer == "" || !jsontext.Pointer(pointer).IsValid() {
			return fmt.Errorf("%s: %q is not a JSON pointer, like /issue/title", textfmt.Shorten(key, 80), textfmt.Shorten(pointer, 80))
		}
		var err error
		decision, isDecision := strings.CutPrefix(key, decisionPrefix)
		label, isLabel := strings.CutPrefix(key, labelPrefix)
		switch {
		case isDecision:
			err = spec.CheckDecision(decision)
		case isLabel:
			err = session.CheckLabels(map[string]string{label: "x"})
		case key != requirement:
			err = fmt.Errorf("%q is nothing that a session takes; use requirement, decision.NAME or label.KEY", textfmt.Shorten(key, 80))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
