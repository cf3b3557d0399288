package agent

import (
	"encoding/json"
	"fmt"
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
	Usage team.Usage            `json:"usage"`
	Crash bool                  `json:"crash,omitempty"`
	Hang  bool                  `json:"hang,omitempty"`
}

// scripted is the task of a scripted agent: the worker's own executable, below
// the shim like any other program, playing what the script has for the attempt.
func (s *Set) scripted(job team.Job) (task, error) {
	subject := "agent " + job.Agent
	play, ok := s.scripts[job.Agent].choose(job.Brief)
	if !ok {
		return task{}, team.Failf(team.InvalidOutput, "%s: its script has no play for %s/%s; add one under that key, or under \"*\" for anyone",
			subject, job.Brief.Phase, job.Brief.Persona)
	}
	p, err := play.part(job)
	if err != nil {
		return task{}, &team.Failure{Category: team.ContractViolation, Message: s.message("%s: %v", subject, err)}
	}
	data, err := json.Marshal(p)
	if err != nil {
		return task{}, fmt.Errorf("encode a play: %w", err)
	}
	return task{argv: []string{s.player, playArgument}, stdin: data}, nil
}

// part fills in the play's texts. A play with more turns than the persona may
// take ends as a failure after those.
func (p scriptPlay) part(job team.Job) (part, error) {
	f := newFiller(job.Brief)
	out := part{Result: result{Usage: p.Usage.usage(), Decisions: make(map[string]string, len(p.Decisions))}}
	for name, value := range p.Decisions {
		out.Result.Decisions[name] = f.fill(value)
	}
	// What the play itself decides shapes its own files, too.
	for name, value := range out.Result.Decisions {
		f.decisions[name] = value
	}
	turns := p.Turns
	spent := job.MaxTurns > 0 && len(turns) > job.MaxTurns
	if spent {
		turns = turns[:job.MaxTurns]
	}
	for _, t := range turns {
		out.Turns = append(out.Turns, t.part(f))
	}
	out.Result.Summary = f.fill(p.Summary)
	if p.SendsBack != nil && !spent {
		out.Result.SendsBack = &sentBack{}
		for _, reason := range p.SendsBack.Reasons {
			out.Result.SendsBack.Reasons = append(out.Result.SendsBack.Reasons, f.fill(reason))
		}
	}
	switch {
	case spent:
		out.Result.Error = &resultError{Category: team.TurnLimit, Message: fmt.Sprintf("the work was not done after %d turns (max_turns)", job.MaxTurns)}
	case p.Fail != nil:
		out.Result.Error = &resultError{
			Category: p.Fail.Category, Message: f.fill(p.Fail.Message), Output: f.fill(p.Fail.Output), Retryable: p.Fail.Retryable,
		}
	}
	return out, f.err()
}

func (t scriptTurn) part(f *filler) partTurn {
	out := partTurn{
		Say: f.fill(t.Say), Delay: t.Delay.Std(), Usage: t.Usage.usage(), Crash: t.Crash, Hang: t.Hang,
		Files: make(map[string]scriptFile, len(t.Files)),
	}
	for name, file := range t.Files {
		file.Content, file.Link = f.fill(file.Content), f.fill(file.Link)
		out.Files[f.fill(name)] = file
	}
	return out
}
