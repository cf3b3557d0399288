// Command auditor examines the Go module in a directory with the Go toolchain, a
// question at a time, and leaves the answers below audit/ in that directory.
//
//	auditor inventory|build|vet|test|api|report|gate DIR
//
// It is the agent of the example `audit`: it reads its brief on standard input and
// writes its result to $MAESTRO_RESULT. It imports the standard library alone, so that
// compiling it takes nothing but the toolchain.
package main

import (
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

// brief is what of an agent's brief matters here.
type brief struct {
	Session     string `json:"session"`
	Requirement string `json:"requirement"`
}

// result is what an agent leaves in $MAESTRO_RESULT.
type result struct {
	Summary   string            `json:"summary"`
	Decisions map[string]string `json:"decisions,omitempty"`
	Error     *failure          `json:"error,omitempty"`
}

// failure is a result that is none: the work could not be done, or is wanting.
type failure struct {
	Category  string `json:"category"`
	Message   string `json:"message"`
	Output    string `json:"output,omitempty"`
	Retryable bool   `json:"retryable"`
}

func (f *failure) Error() string { return f.Message }

// auditor examines one module.
type auditor struct {
	// root is the absolute path of the module's directory.
	root string
	// environ is the environment of the toolchain.
	environ []string
	// progress takes lines for whoever watches.
	progress io.Writer
	brief    brief
}

// verbs are the questions that can be asked.
var verbs = map[string]func(*auditor) (result, error){
	"inventory": (*auditor).inventory,
	"build":     (*auditor).build,
	"vet":       (*auditor).vet,
	"test":      (*auditor).test,
	"api":       (*auditor).api,
	"report":    (*auditor).report,
	"gate":      (*auditor).gate,
}

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stderr, os.Environ())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run answers one question. What has gone wrong is in the result, too, if there is
// a place for it.
func run(args []string, stdin io.Reader, progress io.Writer, environ []string) error {
	if len(args) != 2 || verbs[args[0]] == nil {
		return fmt.Errorf("usage: auditor %s DIR", strings.Join(slices.Sorted(maps.Keys(verbs)), "|"))
	}
	root, err := filepath.Abs(args[1])
	if err != nil {
		return err
	}
	a := &auditor{root: root, environ: toolchainEnvironment(environ, root), progress: progress}
	if err := json.NewDecoder(stdin).Decode(&a.brief); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the brief on standard input is no JSON object: %w", err)
	}
	r, err := verbs[args[0]](a)
	var f *failure
	if errors.As(err, &f) {
		r.Error = f
	}
	if file := variable(environ, "MAESTRO_RESULT"); file != "" && (err == nil || f != nil) {
		r.Summary = shorten(r.Summary, 500)
		data, encodeErr := json.Marshal(r)
		return errors.Join(err, encodeErr, os.WriteFile(file, data, 0o600))
	}
	if err == nil {
		fmt.Fprintln(progress, r.Summary)
	}
	return err
}

// variable returns the value of an environment variable; the last one counts.
func variable(environ []string, name string) string {
	value := ""
	for _, entry := range environ {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// folder is where answers go, below the module's directory.
const folder = "audit"

// save writes an answer as JSON.
func (a *auditor) save(name string, document any) error {
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return a.write(name, append(data, '\n'))
}

func (a *auditor) write(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Join(a.root, folder), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.root, folder, name), data, 0o644) //nolint:gosec // the directory to examine is the point
}

// load reads an answer of an earlier phase.
func (a *auditor) load(name string, document any) error {
	data, err := os.ReadFile(filepath.Join(a.root, folder, name))
	if err != nil {
		return fmt.Errorf("an earlier phase should have left %s/%s: %w", folder, name, err)
	}
	if err := json.Unmarshal(data, document); err != nil {
		return fmt.Errorf("%s/%s is not what an earlier phase leaves: %w", folder, name, err)
	}
	return nil
}

// say tells whoever watches what is being done.
func (a *auditor) say(format string, args ...any) {
	fmt.Fprintf(a.progress, format+"\n", args...)
}

// shorten cuts a text to at most n bytes, at a whole character.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len("…")], "") + "…"
}

// count says a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
