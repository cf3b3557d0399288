// Package hiveimport reads the checkpoints that Maestro Hive 1.0 wrote, and says what
// they are to a team: which phases are done, what they left, what was decided.
package hiveimport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// version is the one of the checkpoints that this package reads.
const version = "1.0"

// completed is the status of a phase that is done.
const completed = "completed"

// Checkpoint is a checkpoint of Maestro Hive, as far as a session can use it.
type Checkpoint struct {
	Metadata Metadata `json:"checkpoint_metadata"`
	Context  Context  `json:"workflow_context"`
}

// Metadata says what checkpoint it is.
type Metadata struct {
	Version    string `json:"version"`
	WorkflowID string `json:"workflow_id"`
}

// Context is the workflow's state.
type Context struct {
	WorkflowID string            `json:"workflow_id"`
	Results    map[string]Result `json:"phase_results"`
	Order      []string          `json:"phase_order"`
	Metadata   struct {
		Requirement string `json:"initial_requirement"`
	} `json:"metadata"`
}

// Result is what a phase left.
type Result struct {
	Status      string          `json:"status"`
	Outputs     json.RawMessage `json:"outputs"`
	CompletedAt string          `json:"completed_at"`
}

// Faults lists all that is wrong with a checkpoint.
type Faults []Fault

// Fault is a field that is not as it should be.
type Fault struct {
	// Field is the path of the field, like workflow_context.phase_results.
	Field string
	// Message says what is wrong and what would be right.
	Message string
}

// Error lists the faults, one a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Field + ": " + fault.Message
	}
	return strings.Join(lines, "\n")
}

// Recognise reports whether data looks like a checkpoint of Maestro Hive.
func Recognise(data []byte) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(data, &fields) == nil && (fields["checkpoint_metadata"] != nil || fields["workflow_context"] != nil)
}

// Parse reads a checkpoint. What it refuses, it refuses with [Faults].
func Parse(data []byte) (Checkpoint, error) {
	var c Checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return c, Faults{jsonFault(data, err)}
	}
	return c, c.check()
}

// jsonKinds are what JSON calls what a field needs, if it is no text.
var jsonKinds = map[reflect.Kind]string{reflect.Map: "JSON object", reflect.Struct: "JSON object", reflect.Slice: "list"}

// jsonFault names the field, or the line, at which decoding failed.
func jsonFault(data []byte, err error) Fault {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		needed := cmp.Or(jsonKinds[wrong.Type.Kind()], "text")
		return Fault{cmp.Or(wrong.Field, "checkpoint"), fmt.Sprintf("is a %s; it must be a %s", wrong.Value, needed)}
	}
	at := 0
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = min(int(syntax.Offset), len(data))
	}
	return Fault{fmt.Sprintf("line %d", 1+bytes.Count(data[:at], []byte("\n"))), err.Error()}
}

// check faults what no import could make sense of.
func (c Checkpoint) check() error {
	var faults Faults
	add := func(field, format string, args ...any) {
		faults = append(faults, Fault{field, fmt.Sprintf(format, args...)})
	}
	if c.Metadata.Version != version {
		add("checkpoint_metadata.version", "is %q; the version that can be imported is %q", clip(c.Metadata.Version), version)
	}
	if len(c.Done()) == 0 {
		add("workflow_context.phase_results", "has no phase whose status is %q, so there is nothing to import", completed)
	}
	if c.Requirement() == "" {
		add("workflow_context.metadata.initial_requirement", "is missing; set it to the text of the requirement")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Context.Results)) {
		r := c.Context.Results[name]
		if r.Status != completed {
			continue
		}
		var outputs map[string]json.RawMessage
		if len(r.Outputs) > 0 && json.Unmarshal(r.Outputs, &outputs) != nil {
			add("workflow_context.phase_results."+clip(name)+".outputs", "must be a JSON object")
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// Done lists the completed phases in their order: that of phase_order, then the
// rest by name.
func (c Checkpoint) Done() []string {
	var done []string
	for _, name := range append(slices.Clone(c.Context.Order), slices.Sorted(maps.Keys(c.Context.Results))...) {
		if c.Context.Results[name].Status == completed && !slices.Contains(done, name) {
			done = append(done, name)
		}
	}
	return done
}

// Requirement is the text that the workflow was started with.
func (c Checkpoint) Requirement() string {
	if text := c.Context.Metadata.Requirement; text != "" {
		return text
	}
	var outputs struct {
		Requirement string `json:"requirement"`
	}
	_ = json.Unmarshal(c.Context.Results["requirements"].Outputs, &outputs) // of another kind: none
	return outputs.Requirement
}

// ID is the workflow's id.
func (c Checkpoint) ID() string {
	if c.Context.WorkflowID != "" {
		return c.Context.WorkflowID
	}
	return c.Metadata.WorkflowID
}

// at reads a time of Maestro Hive, which has no zone and is taken as UTC.
func at(text string) time.Time {
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", time.RFC3339Nano} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}

func clip(text string) string {
	if runes := []rune(text); len(runes) > 80 {
		return string(runes[:80]) + "..."
	}
	return text
}
