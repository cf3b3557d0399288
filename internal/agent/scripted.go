package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/team"
)

// part is what a player gets on its standard input: a play with everything
// filled in.
type part struct {
	Turns  []partTurn `json:"turns"`
	Result result     `json:"result"`
}

type partTurn struct {
	Say   string                `json:"say,omitempty"`
	Delay time.Duration         `json:"delay,omitempty"`
	Files map[string]scriptFile `json:"files,omitempty"`
}

// scripted is the task of a scripted agent: the worker's own executable, below
// the shim like any other program, playing what the script has for the attempt.
func (s *Set) scripted(job team.Job) (task, error) {
	play, ok := s.scripts[job.Agent].choose(job.Brief)
	if !ok {
		return task{}, team.Failf(team.InvalidOutput, "agent %s: its script has no play for %s/%s", job.Agent, job.Brief.Phase, job.Brief.Persona)
	}
	p, err := play.part(job)
	if err != nil {
		return task{}, team.Failf(team.ContractViolation, "agent %s: %v", job.Agent, err)
	}
	data, err := json.Marshal(p)
	if err != nil {
		return task{}, fmt.Errorf("encode a play: %w", err)
	}
	return task{argv: []string{s.player, playArgument}, stdin: data}, nil
}

// part fills in the play's texts and adds up its usage. A play with more turns
// than the persona may take ends as a failure after those.
func (p scriptPlay) part(job team.Job) (part, error) {
	turns, result := p.Turns, result{Summary: p.Summary, Decisions: maps.Clone(p.Decisions)}
	if p.Fail != nil {
		result.Error = &resultError{Category: p.Fail.Category, Message: p.Fail.Message, Output: p.Fail.Output, Retryable: p.Fail.Retryable}
	}
	if job.MaxTurns > 0 && len(turns) > job.MaxTurns {
		turns = turns[:job.MaxTurns]
		result.Error = &resultError{Category: team.InvalidOutput, Message: fmt.Sprintf("the work was not done after %d turns (max_turns)", job.MaxTurns)}
	}
	out := part{}
	for _, t := range turns {
		filled, err := t.part(job.Brief)
		if err != nil {
			return part{}, err
		}
		out.Turns = append(out.Turns, filled)
		result.Usage = result.Usage.Add(t.Usage.usage())
	}
	result.Usage = result.Usage.Add(p.Usage.usage())
	texts := []*string{&result.Summary}
	if result.Error != nil {
		texts = append(texts, &result.Error.Message, &result.Error.Output)
	}
	for _, text := range texts {
		var err error
		if *text, err = fill(*text, job.Brief); err != nil {
			return part{}, err
		}
	}
	for name, value := range result.Decisions {
		filled, err := fill(value, job.Brief)
		if err != nil {
			return part{}, err
		}
		result.Decisions[name] = filled
	}
	out.Result = result
	return out, nil
}

func (t scriptTurn) part(b team.Brief) (out partTurn, err error) {
	out = partTurn{Delay: t.Delay.Std(), Files: map[string]scriptFile{}}
	if out.Say, err = fill(t.Say, b); err != nil {
		return out, err
	}
	for name, f := range t.Files {
		if name, err = fill(name, b); err != nil {
			return out, err
		}
		if f.Content, err = fill(f.Content, b); err != nil {
			return out, err
		}
		out.Files[name] = f
	}
	return out, nil
}

// play is the main function of a player: it plays the part that it reads in dir
// and leaves the result in the file resultPath. It returns the exit status.
func play(stdin io.Reader, stderr io.Writer, dir, resultPath string) int {
	if err := playPart(stdin, stderr, dir, resultPath); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func playPart(stdin io.Reader, stderr io.Writer, dir, resultPath string) error {
	var p part
	if err := json.NewDecoder(stdin).Decode(&p); err != nil {
		return fmt.Errorf("read the play: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	defer root.Close() //nolint:errcheck // a directory
	for _, t := range p.Turns {
		if t.Say != "" {
			fmt.Fprintln(stderr, t.Say)
		}
		time.Sleep(t.Delay) // the play's own time; a player that is stopped is killed
		for _, name := range slices.Sorted(maps.Keys(t.Files)) {
			if err := t.Files[name].write(root, name); err != nil {
				return fmt.Errorf("write %s: %w", name, err)
			}
		}
	}
	data, err := json.Marshal(p.Result)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	return os.WriteFile(resultPath, data, 0o600) //nolint:gosec // the path that the worker chose for this attempt
}

// write does to the file what the play says. The root keeps it inside.
func (f scriptFile) write(root *os.Root, name string) error {
	if f.Delete {
		return root.RemoveAll(name)
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if f.Link != "" {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
		return root.Symlink(f.Link, name)
	}
	mode, flags := fs.FileMode(0o644), os.O_WRONLY|os.O_CREATE|os.O_TRUNC
	if f.Executable {
		mode = 0o755
	}
	if f.Append {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	file, err := root.OpenFile(name, flags, mode)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(f.Content); err != nil {
		_ = file.Close() // the first error is the one to tell
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return root.Chmod(name, mode)
}
