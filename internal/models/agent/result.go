package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

const (
	// resultVariable is the variable with the path at which an agent leaves its result.
	resultVariable = "MAESTRO_RESULT"
	resultName     = "result.json"
	// maxResult bounds a result, in bytes.
	maxResult = 1 << 20
)

// result is the optional document in $MAESTRO_RESULT.
type result struct {
	Summary   string            `json:"summary"`
	Decisions map[string]string `json:"decisions"`
	Usage     cost.Usage        `json:"usage"`
	// Kept says which versions of conflicts are kept, by path or decision.
	Kept      map[string]session.Kept `json:"kept,omitempty"`
	SendsBack *sentBack               `json:"sends_back,omitempty"`
	Error     *resultError            `json:"error,omitempty"`
}

// sentBack is the part of a result that sends an earlier phase's work back, with reasons.
type sentBack struct {
	Reasons []string `json:"reasons"`
}

func (b *sentBack) check() error {
	if b == nil {
		return nil
	}
	if err := session.CheckReasons(b.Reasons); err != nil {
		return fmt.Errorf("sends_back: %w", err)
	}
	return nil
}

// resultError is the part of a result that reports a failure.
type resultError struct {
	// Category defaults to unknown.
	Category failures.Category `json:"category"`
	Message  string            `json:"message"`
	// Output is evidence; empty: the end of the agent's output.
	Output string `json:"output,omitempty"`
	// RetryAfter is the wait that the agent's provider has asked for, like "90s"; zero: none.
	RetryAfter textfmt.Duration `json:"retry_after,omitempty"`
	// Retryable defaults to true.
	Retryable *bool `json:"retryable,omitempty"`
}

// parseResult parses a result. An unknown field is an error, because it would be lost silently.
// Empty data is an empty result. A rejected result still has its usage if that can be read,
// because it has to be paid.
func parseResult(data []byte) (result, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return result{}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var r result
	err := decoder.Decode(&r)
	if err != nil {
		err = explain(err)
	} else if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
		err = errors.New("unexpected data after the JSON object; write one object only")
	}
	if err = cmp.Or(err, r.check()); err != nil {
		return result{Usage: usageOf(data)}, err
	}
	return r, nil
}

// check returns the first error in the values of a result.
func (r result) check() error {
	err := cmp.Or(r.Usage.Validate(), session.CheckDecisions(r.Decisions), session.CheckKept(r.Kept), r.SendsBack.check())
	if err == nil && r.SendsBack != nil && r.Error != nil {
		return errors.New("sends_back and error exclude each other; write one of them")
	}
	return cmp.Or(err, r.Error.check())
}

// usageOf parses only the usage; zero if it cannot be parsed.
func usageOf(data []byte) cost.Usage {
	var r struct {
		Usage cost.Usage `json:"usage"`
	}
	if json.NewDecoder(bytes.NewReader(data)).Decode(&r) != nil || r.Usage.Validate() != nil {
		return cost.Usage{}
	}
	return r.Usage
}

func (e *resultError) check() error {
	if e == nil {
		return nil
	}
	switch {
	case e.Category == failures.Rejected:
		return fmt.Errorf("error.category %q is only for work that was sent back; to send work back, write sends_back instead of error",
			e.Category)
	case slices.Contains(reserved, e.Category):
		return fmt.Errorf("error.category %q is reserved for Maestro; use unknown or a more precise category", e.Category)
	case e.Category != "" && !failures.ValidCategory(e.Category):
		return fmt.Errorf("error.category %q is not a failure category%s",
			textfmt.Shorten(string(e.Category), 80), categoryHint(e.Category))
	}
	return nil
}

// reserved are the categories that only Maestro itself uses.
var reserved = []failures.Category{failures.WorkerLost, failures.Cancelled, failures.Pending, failures.NeedsPerson}

// categoryHint returns the end of a message about an invalid category: the allowed ones.
func categoryHint(c failures.Category) string {
	var names []string
	for _, known := range failures.Categories() {
		if known != failures.Rejected && !slices.Contains(reserved, known) {
			names = append(names, string(known))
		}
	}
	if hint := textfmt.DidYouMean(string(c), names); hint != "" {
		return hint
	}
	return "; use one of " + strings.Join(names, ", ")
}

// explain describes an error of parsing in terms of the document.
func explain(err error) error {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf("not an object but a JSON %s", wrong.Value)
	case errors.As(err, &wrong):
		return fmt.Errorf("%s is a JSON %s; it must be %s", wrong.Field, wrong.Value, describeKind(wrong.Type))
	case errors.As(err, &syntax):
		return fmt.Errorf("not valid JSON: %s at byte %d", syntax.Error(), syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("not valid JSON: unexpected end")
	}
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("unknown field %s; a result has summary, decisions, usage, sends_back and error", textfmt.Shorten(field, 80))
	}
	return err
}

func describeKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "an array"
	default:
		return "an object"
	}
}

// resultDir returns the directory for the result of the agent with this HOME.
func resultDir(home string) string { return filepath.Join(filepath.Dir(home), "result") }

// openResultDir makes the directory in which an agent leaves its result, beside the tree and new for each attempt. It is
// kept open, so that renaming the directory has no effect.
func openResultDir(home string, user *room.Account) (*os.Root, error) {
	dir := resultDir(home)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrExist) { // that of the last attempt
		err = errors.Join(bounded.RemoveTree(dir), os.Mkdir(dir, 0o700))
	}
	if err != nil {
		return nil, fmt.Errorf("create the directory of the result: %w", err)
	}
	if err := user.Chown(dir); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// readResult reads and parses the result in its directory. The agent controls the file at that path. So readResult does not
// follow links out of the directory, does not block on a pipe, and reads at most maxResult bytes.
func readResult(dir *os.Root) (result, error) {
	f, err := dir.OpenFile(resultName, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return result{}, nil
	}
	if err != nil {
		return result{}, fmt.Errorf("cannot be opened: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return result{}, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxResult+1))
	if err != nil {
		return result{}, fmt.Errorf("cannot be read: %w", err)
	}
	if len(data) > maxResult {
		return result{}, fmt.Errorf("it has more than %d bytes; put long texts into files", maxResult)
	}
	return parseResult(data)
}
