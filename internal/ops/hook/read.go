package hook

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/delivery"
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

// LabelComment is the label of a session that a comment with a command has started: the comment's id.
const LabelComment = "comment"

// The labels that sessions of GitHub and GitLab have besides.
const (
	labelRepository = "repository"
	labelIssue      = "issue"
)

const (
	// usualPointer is the default pointer of the requirement in a generic call.
	usualPointer = "/requirement"

	maxMapped  = 40
	maxPointer = 500
	maxUsers   = 50
)

// Start is a session that a call starts.
type Start struct {
	Requirement string
	Decisions   map[string]string
	Labels      map[string]string
	// Subject is the issue that the session works on: two sessions do not work on one at a time. Empty: the call starts a
	// session of its own.
	Subject string
}

// Call is what a verified call asks for. It is empty for a call that only tests the hook.
type Call struct {
	// Start is a session to start, News is for the sessions of pull requests; at most one is there.
	Start *Start
	News  *News
	// Ignored is why the call starts no session; with News, why it wakes none if no session waits for these pull requests.
	Ignored string
}

// Read returns what a verified call asks for. An unusable body is a [*PayloadError].
func Read(h access.Hook, header http.Header, body []byte) (c Call, err error) {
	p, err := parse(body)
	if err != nil {
		return c, err
	}
	switch h.Kind {
	case access.HookGitHub:
		c = readGitHub(h, header.Get(headerGitHubEvent), p)
	case access.HookGitLab:
		c = readGitLab(h, p)
	default:
		c.Start, err = readGeneric(h, p)
	}
	if c.Start != nil {
		labels := map[string]string{LabelHook: h.Name}
		maps.Copy(labels, h.Labels)
		maps.Copy(labels, c.Start.Labels)
		c.Start.Labels = labels
	}
	return c, err
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
	case access.HookGitHub, access.HookGitLab:
		if len(h.On) == 0 {
			h.On = []string{onLabeled + "maestro"}
			if h.Kind == access.HookGitHub || len(h.Users) > 0 {
				h.On = append(h.On, onComment+delivery.Mention)
			}
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
	case access.HookGitHub, access.HookGitLab:
		if len(h.Map) > 0 {
			return wrong("map", "a hook of the kind %s has no mapping; leave it out", h.Kind)
		}
		if err := checkEvents(h.On); err != nil {
			return wrong("on", "%v", err)
		}
		if field, err := checkWho(h); err != nil {
			return wrong(field, "%v", err)
		}
		own = append(own, labelRepository, labelIssue, LabelComment)
	case access.HookGeneric:
		if len(h.On) > 0 || len(h.Users) > 0 {
			return wrong("on", "events and users are those of the kinds github and gitlab; leave them out")
		}
		if err := checkMap(h.Map); err != nil {
			return wrong("map", "%v", err)
		}
	default:
		return wrong("kind", "%q is not a kind of hook; use generic, github or gitlab", textfmt.Shorten(string(h.Kind), 80))
	}
	return checkLabels(h, own)
}

// checkWho refuses events of GitLab that anybody could send: it does not say who is a member of a project.
func checkWho(h access.Hook) (field string, err error) {
	commands := slices.ContainsFunc(h.On, func(on string) bool { return strings.HasPrefix(on, onComment) })
	switch {
	case h.Kind == access.HookGitHub && len(h.Users) > 0:
		return "users", errors.New("GitHub says who is trusted; users are those of the kind gitlab, leave them out")
	case h.Kind == access.HookGitHub:
	case slices.Contains(h.On, onOpened):
		return "on", fmt.Errorf("GitLab does not say whether a member opens an issue; use issues.labeled:LABEL instead of %s", onOpened)
	case commands && len(h.Users) == 0:
		return "users", errors.New("GitLab does not say who is a member; name the users whose commands start sessions")
	case len(h.Users) > maxUsers || len(strings.Join(h.Users, "")) > maxUsers*maxOn:
		return "users", fmt.Errorf("there are %d users, or long names; %d users at most are taken", len(h.Users), maxUsers)
	}
	return "", nil
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
