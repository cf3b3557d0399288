package preset

import (
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

// Program describes one agent program.
type Program struct {
	// API is that of the provider that the program asks.
	API wire.API
	// Package is its npm package.
	Package string
	// Argv is the argv of an agent whose definition has none. With it the program
	// works without confirmations, as far as it can restrict itself.
	Argv []string
	// OutputFlags are the names of the flag for its output, which must be stream-json; none if it has no such flag.
	OutputFlags []string
	// BoundsTurns: it has a flag for the number of turns. StatesCost: it reports what its requests cost.
	BoundsTurns, StatesCost bool
	// SettingsFile is the name, below HOME, and Settings the text of a file that the program needs to use
	// a key at another address than its provider's; empty if it needs none.
	SettingsFile, Settings string
	// Usage describes the files below HOME in which the program records usage.
	Usage UsageFiles
	// ConversationFiles are patterns of the files below HOME with which the program
	// continues a conversation under a HOME that has nothing else.
	ConversationFiles []string
	// unknown are texts of stderr that say that the conversation to resume does not exist.
	unknown []string
	// needsGit says whether the program, started with argv, works in a repository only, and mounts whether it makes a
	// sandbox with mounts of its own; nil if it never does.
	needsGit, mounts func(argv []string) bool
	// Command returns argv with the flags added that the run needs.
	Command func(argv []string, r Invocation) []string
	// Parser returns a parser for the stream of one run.
	Parser func(r Invocation) Parser
}

// NeedsGit says whether the program, started with argv, works in a repository only.
func (p *Program) NeedsGit(argv []string) bool { return p.needsGit != nil && p.needsGit(argv) }

// Mounts says whether the program, started with argv, makes a sandbox with mounts of its own.
func (p *Program) Mounts(argv []string) bool { return p.mounts != nil && p.mounts(argv) }

// ConversationUnknown says whether stderr reports that the conversation to resume does not exist.
func (p *Program) ConversationUnknown(stderr string) bool {
	return slices.ContainsFunc(p.unknown, func(text string) bool { return strings.Contains(stderr, text) })
}

// Parser parses the event stream of one run.
type Parser interface {
	// Event parses one event, a JSON object, and reports it to s. Unknown events are
	// ignored. It returns false if data is not an event.
	Event(data []byte, s *Run) bool
	// End is called once, after the last event, with the program's exit status and the
	// end of its stderr.
	End(exit int, stderr string, s *Run)
}

// Invocation has the parameters of one run of a program.
type Invocation struct {
	// Model overrides the program's own model; empty: it does not.
	Model string
	// MaxTurns bounds the model's turns if the program has a flag for it; zero: no bound.
	MaxTurns int
	// ResultDir is a directory outside of the tree that the program may write to.
	ResultDir string
	// BaseURL is the address of another server than the provider's own, where the variable
	// KeyVariable has the key; empty: the program finds its provider by itself.
	BaseURL, KeyVariable string
	// Offline: requests with web tools of the provider are refused.
	Offline bool
	// Conversation is the one to resume; its zero: start a new one. Its Booked is the
	// usage of earlier runs.
	Conversation session.Conversation
}

// The presets that a worker file may name.
const (
	Claude = "claude"
	Codex  = "codex"
	Gemini = "gemini"
)

var programs = map[string]*Program{Claude: &claude, Codex: &codex, Gemini: &gemini}

// For returns the program of a preset; nil if the preset is unknown.
func For(preset string) *Program { return programs[preset] }

// hasFlag says whether an argv has one of these flags, with or without a value
// behind an equals sign.
func hasFlag(argv []string, names ...string) bool {
	_, ok := FlagValue(argv, names...)
	return ok
}

// FlagValue returns the value of the first of these flags in an argv: the text after its
// equals sign, or the next argument.
func FlagValue(argv []string, names ...string) (value string, ok bool) {
	for i, arg := range argv {
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case i == 0 || !slices.Contains(names, name):
		case joined:
			return value, true
		case i+1 < len(argv):
			return argv[i+1], true
		default:
			return "", true
		}
	}
	return "", false
}

// addFlag appends a flag and its value, unless the value is empty or the argv has the
// flag under one of its names.
func addFlag(argv []string, value string, names ...string) []string {
	if value == "" || hasFlag(argv, names...) {
		return argv
	}
	return append(argv, names[0], value)
}

// addFlagWithoutValue appends a flag without a value unless the argv has it.
func addFlagWithoutValue(argv []string, names ...string) []string {
	if hasFlag(argv, names...) {
		return argv
	}
	return append(argv, names[0])
}
