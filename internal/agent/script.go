package agent

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/maestro-hive/maestro/internal/team"
)

// script is the file that a scripted agent plays.
type script struct {
	// Version of the format; 1 is the only one.
	Version int `yaml:"version"`
	// Plays by "phase/persona", "persona" or "*"; the most precise key that
	// the assignment has is used.
	Plays map[string][]scriptPlay `yaml:"plays"`
}

// scriptPlay is what the agent does in one attempt.
type scriptPlay struct {
	// Round and Attempt restrict the play; zero: any. The first play that
	// fits is played, the last one where none does.
	Round   int `yaml:"round,omitempty"`
	Attempt int `yaml:"attempt,omitempty"`
	// Turns are played in order.
	Turns []scriptTurn `yaml:"turns,omitempty"`
	// Summary, Decisions and Usage are reported at the end; the usage is
	// added to that of the turns.
	Summary   string            `yaml:"summary,omitempty"`
	Decisions map[string]string `yaml:"decisions,omitempty"`
	Usage     scriptUsage       `yaml:"usage,omitempty"`
	// Fail has the attempt fail after its turns.
	Fail *scriptFailure `yaml:"fail,omitempty"`
}

// scriptTurn is one step of a play.
type scriptTurn struct {
	// Say is a progress line.
	Say string `yaml:"say,omitempty"`
	// Delay is how long the turn takes.
	Delay team.Duration `yaml:"delay,omitempty"`
	// Files are written at the end of the turn.
	Files map[string]scriptFile `yaml:"files,omitempty"`
	Usage scriptUsage           `yaml:"usage,omitempty"`
}

// scriptFile is a file's content, or more about it.
type scriptFile struct {
	Content    string `yaml:"content,omitempty" json:"content,omitempty"`
	Executable bool   `yaml:"executable,omitempty" json:"executable,omitempty"`
	// Append adds to the file instead of replacing it.
	Append bool `yaml:"append,omitempty" json:"append,omitempty"`
	// Link makes a symbolic link with this target.
	Link string `yaml:"link,omitempty" json:"link,omitempty"`
	// Delete removes the path and all below it.
	Delete bool `yaml:"delete,omitempty" json:"delete,omitempty"`
}

// UnmarshalYAML takes a bare text as the content.
func (f *scriptFile) UnmarshalYAML(decode func(any) error) error {
	var text string
	if err := decode(&text); err == nil {
		*f = scriptFile{Content: text}
		return nil
	}
	type full scriptFile
	return decode((*full)(f))
}

// scriptUsage is [team.Usage] under its names in YAML.
type scriptUsage struct {
	InputTokens      int64    `yaml:"input_tokens,omitempty"`
	OutputTokens     int64    `yaml:"output_tokens,omitempty"`
	CacheReadTokens  int64    `yaml:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64    `yaml:"cache_write_tokens,omitempty"`
	CostUSD          team.USD `yaml:"cost_usd,omitempty"`
}

// scriptFailure is how a play fails.
type scriptFailure struct {
	Category  team.Category `yaml:"category"`
	Message   string        `yaml:"message"`
	Output    string        `yaml:"output,omitempty"`
	Retryable *bool         `yaml:"retryable,omitempty"`
}

// parseScript reads a script strictly. The error names file, line and column.
func parseScript(path string, data []byte) (*script, error) {
	var s script
	if err := yaml.UnmarshalWithOptions(data, &s, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	var errs []error
	if s.Version != 1 {
		errs = append(errs, fmt.Errorf("%s: version is %d; write `version: 1`", path, s.Version))
	}
	if len(s.Plays) == 0 {
		errs = append(errs, fmt.Errorf("%s: plays is empty; add a list of plays under \"phase/persona\", \"persona\" or \"*\"", path))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Plays)) {
		if len(s.Plays[key]) == 0 {
			errs = append(errs, fmt.Errorf("%s: plays[%q] is empty; list at least one play", path, key))
		}
		for i, p := range s.Plays[key] {
			if err := p.check(); err != nil {
				errs = append(errs, fmt.Errorf("%s: plays[%q][%d]: %w", path, key, i, err))
			}
		}
	}
	return &s, errors.Join(errs...)
}

func (p scriptPlay) check() error {
	if p.Round < 0 || p.Attempt < 0 {
		return errors.New("round and attempt count from 1; leave them out for any")
	}
	for i, t := range p.Turns {
		if t.Delay < 0 {
			return fmt.Errorf("turns[%d].delay is negative", i)
		}
		if err := t.Usage.usage().Validate(); err != nil {
			return fmt.Errorf("turns[%d].%w", i, err)
		}
		for path, f := range t.Files {
			if f.Link != "" && (f.Content != "" || f.Append || f.Executable) || f.Delete && f != (scriptFile{Delete: true}) {
				return fmt.Errorf("turns[%d].files[%q]: give it content, or a link, or delete it", i, path)
			}
		}
	}
	if err := p.Usage.usage().Validate(); err != nil {
		return err
	}
	if p.Fail == nil {
		return nil
	}
	return (&resultError{Category: p.Fail.Category}).check()
}

func (u scriptUsage) usage() team.Usage {
	return team.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens, CostUSD: u.CostUSD,
	}
}

// choose returns the play for an attempt.
func (s *script) choose(b team.Brief) (scriptPlay, bool) {
	for _, key := range []string{b.Phase + "/" + b.Persona, b.Persona, "*"} {
		plays := s.Plays[key]
		for _, p := range plays {
			if (p.Round == 0 || p.Round == b.Round) && (p.Attempt == 0 || p.Attempt == b.Attempt) {
				return p, true
			}
		}
		if len(plays) > 0 {
			return plays[len(plays)-1], true
		}
	}
	return scriptPlay{}, false
}

// placeholder is what texts of a script may refer to. Anything else between ${
// and } is left as it is: it belongs to the program that the text is.
var placeholder = regexp.MustCompile(`\$\{(decision\.[A-Za-z0-9][A-Za-z0-9._-]*|requirement|session|phase|persona|round|attempt|feedback\.(?:category|message|output|advice))\}`)

// fill replaces the placeholders of a text. A decision that was not made is an
// error, since what is built on it would be wrong.
func fill(text string, b team.Brief) (string, error) {
	var missing error
	filled := placeholder.ReplaceAllStringFunc(text, func(match string) string {
		name := match[2 : len(match)-1]
		if decision, ok := strings.CutPrefix(name, "decision."); ok {
			value, made := b.Decisions[decision]
			if !made {
				missing = fmt.Errorf("the script refers to the decision %q, which no phase before has made", decision)
			}
			return value
		}
		return placeholderValue(name, b)
	})
	return filled, missing
}

func placeholderValue(name string, b team.Brief) string {
	feedback := team.Feedback{}
	if b.Feedback != nil {
		feedback = *b.Feedback
	}
	switch name {
	case "requirement":
		return b.Requirement
	case "session":
		return b.Session
	case "phase":
		return b.Phase
	case "persona":
		return b.Persona
	case "round":
		return strconv.Itoa(b.Round)
	case "attempt":
		return strconv.Itoa(b.Attempt)
	case "feedback.category":
		return string(feedback.Category)
	case "feedback.message":
		return feedback.Message
	case "feedback.output":
		return feedback.Output
	default:
		return feedback.Advice
	}
}
