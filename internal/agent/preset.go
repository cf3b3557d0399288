package agent

import (
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/session"
)

// dialect is how one of the known agent programs is started and understood.
type dialect interface {
	// usual is the argv of an agent whose definition has none. It lets the
	// program work without asking, as far as the program has bounds of its own.
	usual() []string
	// complete adds to an argv what a run needs and the argv does not say.
	complete(argv []string, r run) []string
	// reader reads the stream of one run.
	reader(r run) reader
	// usage is how the program notes in its HOME what its requests have used.
	usage() usageNotes
	// unknown tells whether a program that printed this to stderr does not know
	// the conversation that it was to continue.
	unknown(stderr string) bool
}

// reader reads the stream of one run of a program.
type reader interface {
	// event takes one event, a JSON object, and tells the story what it means.
	// Of an event that it does not know it tells nothing. It returns false for
	// what is no event at all.
	event(data []byte, s *story) bool
	// end is called once, when no event comes any more. exit is the program's
	// exit status, and stderr the end of what it printed there.
	end(exit int, stderr string, s *story)
}

// run is what one run of a program is to be.
type run struct {
	// model is the model that the definition names; empty: the program's own.
	model string
	// turns bounds the model's turns, where the program can be told so; zero:
	// not at all.
	turns int
	// home is the program's HOME.
	home string
	// results is the directory outside of the tree that it may write to.
	results string
	// goesOn is the conversation that it continues; its zero: a new one. Its Booked is
	// all that it has cost before.
	goesOn conversation
}

// The presets that a worker file may name.
const (
	presetClaude = "claude"
	presetCodex  = "codex"
	presetGemini = "gemini"
)

// dialectOf returns the dialect of a preset, nil for a name that is none.
func dialectOf(preset string) dialect {
	switch preset {
	case presetClaude:
		return claude{}
	case presetCodex:
		return codex{}
	case presetGemini:
		return gemini{}
	}
	return nil
}

// withPreset fills in what the definition's preset decides and it does not.
func (d Definition) withPreset() Definition {
	dialect := dialectOf(d.Preset)
	if d.Kind != KindCommand || dialect == nil {
		return d
	}
	if len(d.Argv) == 0 {
		d.Argv = dialect.usual()
	}
	// Codex refuses to work outside of a repository, unless it is told not to.
	if d.Preset == presetCodex && !hasFlag(d.Argv, codexSkipsGit) {
		d.Git = true
	}
	return d
}

// runOf is the run of an agent on a job.
func runOf(d Definition, job session.Job, goesOn conversation) run {
	r := run{model: d.Model, turns: job.MaxTurns, home: job.Home, results: resultDir(job.Home), goesOn: goesOn}
	if r.turns == 0 {
		r.turns = d.MaxTurns
	}
	return r
}

// hasFlag tells whether an argv has one of these flags, with or without a value
// behind an equals sign.
func hasFlag(argv []string, names ...string) bool {
	_, ok := flagValue(argv, names...)
	return ok
}

// flagValue returns the value of the first of these flags in an argv: what
// stands behind its equals sign, or the argument after it.
func flagValue(argv []string, names ...string) (value string, ok bool) {
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

// addFlag appends a flag unless the argv has it, under this or another name. An
// empty value leaves the argv as it is.
func addFlag(argv []string, value string, names ...string) []string {
	if value == "" || hasFlag(argv, names...) {
		return argv
	}
	return append(argv, names[0], value)
}

// addSwitch appends a flag without a value unless the argv has it.
func addSwitch(argv []string, names ...string) []string {
	if hasFlag(argv, names...) {
		return argv
	}
	return append(argv, names[0])
}
