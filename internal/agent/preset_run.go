package agent

import (
	"context"
	"errors"

	"github.com/maestro-hive/maestro/internal/team"
)

// program runs an agent program of a preset. A conversation that has outgrown
// its model is over: continued, it would only do so again.
func (s *Set) program(ctx context.Context, d Definition, job team.Job, st *stage) (ran, error) {
	got, err := s.goOn(ctx, d, job, st)
	var f *team.Failure
	if errors.As(err, &f) && f.Category == team.ContextOverflow {
		if err := forgetConversation(job.Home); err != nil {
			return got, broken("agent "+job.Agent, err)
		}
	}
	return got, err
}

// goOn runs the program, in the conversation that it has led before if it may.
// If the program does not know it any more, it starts anew, once.
func (s *Set) goOn(ctx context.Context, d Definition, job team.Job, st *stage) (ran, error) {
	var last conversation
	if job.Continues {
		last, _ = readConversation(job.Home, d.Preset)
	}
	got, lost, err := s.talk(ctx, d, job, st, last)
	if !lost || ctx.Err() != nil {
		return got, err
	}
	if err := forgetConversation(job.Home); err != nil {
		return got, broken("agent "+job.Agent, err)
	}
	again, _, err := s.talk(ctx, d, job, st, conversation{})
	again.out.Log = append(append(got.out.Log, '\n'), again.out.Log...)
	// What it spent on another conversation before it was stopped is paid, too.
	again.out.Usage = again.out.Usage.Add(got.out.Usage)
	return again, err
}

// errLost ends a program that leads another conversation than it was to.
var errLost = team.Failf(team.Unknown, "did not know the conversation that it was to continue")

// talk runs the program once. lost: it did not know the conversation.
func (s *Set) talk(ctx context.Context, d Definition, job team.Job, st *stage, goesOn conversation) (got ran, lost bool, err error) {
	subject := "agent " + job.Agent
	dialect, r := dialectOf(d.Preset), runOf(d, job, goesOn)
	progress := newProgress(job.Progress)
	halt := make(chan *team.Failure, 1)
	told, reader := s.story(d, job, goesOn, progress, halt), dialect.reader(r)
	e := s.launcher.run(ctx, process{
		argv: dialect.complete(s.resolve(d.Argv), r), stdin: []byte(prompt(job, goesOn.ID != "")),
		dir: st.place.dir, env: st.env, timeout: st.timeout, idle: d.IdleTimeout.Std(), lock: job.Lock, progress: progress, said: job.Said,
		halt: halt,
		events: func(out *stream) *eventLines {
			told.log = out.say
			return &eventLines{take: func(line []byte) {
				if !reader.event(line, told) {
					out.say(string(line))
				}
			}}
		},
	})
	stderr := e.evidence(&e.err.tail)
	reader.end(e.Exit, stderr, told)
	if told.total != (team.Usage{}) && (goesOn.ID == "" || goesOn.ID == told.id) {
		// The next run books from here on. If this cannot be noted, it books
		// too much rather than too little.
		_ = conversation{Preset: d.Preset, ID: told.id, Booked: told.total}.write(job.Home)
	}
	lost = goesOn.ID != "" && (e.stopped == errLost || told.id == "" && dialect.unknown(stderr))
	got, err = s.judgeStory(subject, e, st.box, told)
	return got, lost, err
}

// story prepares what a run's stream will tell.
func (s *Set) story(d Definition, job team.Job, goesOn conversation, progress *progress, halt chan<- *team.Failure) *story {
	stop := func(f *team.Failure) {
		select {
		case halt <- f:
		default: // it is being ended already
		}
	}
	told := &story{stop: stop, line: func(text string) { progress.line(s.Mask(oneLine(text))) }}
	told.begun = func(id string) {
		switch {
		case goesOn.ID != "" && id != goesOn.ID:
			stop(errLost)
		case goesOn.ID == "" && conversationID.MatchString(id):
			if err := (conversation{Preset: d.Preset, ID: id}).write(job.Home); err != nil {
				told.warns(err.Error())
			}
		}
	}
	told.spent = func(used team.Usage) {
		if job.Calls == nil {
			return
		}
		var f *team.Failure
		if err := job.Calls.Spending(d.priced(used)); errors.As(err, &f) {
			stop(&team.Failure{Category: f.Category, Message: "was stopped: " + f.Message, Final: f.Final})
		}
	}
	return told
}

// judgeStory turns the end of a program and what its stream told into the
// attempt's outcome.
func (s *Set) judgeStory(subject string, e ending, box *resultBox, told *story) (ran, error) {
	r, wrong := box.result()
	failure := s.failed(subject, e)
	if e.own() && e.Signal == 0 {
		switch {
		case told.failure != nil:
			failure = s.toldFailure(subject, told.failure, e)
		case failure == nil && !told.done:
			failure = &team.Failure{
				Category: team.Unknown, Output: e.said(),
				Message: s.message("%s: its stream broke off before it said how the work ended", subject),
			}
		case r.Error != nil:
			failure = s.reported(subject, r.Error, e)
		}
	}
	used, known := told.used, told.counted
	if !known {
		used = r.Usage
		// It ended before anything began, or with nothing under way.
		ended := e.own() && e.Signal == 0 && (told.id == "" || told.done)
		known = used != (team.Usage{}) || ended || told.hopeless
	}
	r.Summary, r.Usage = or(r.Summary, told.summary), used
	out, err := s.outcome(subject, e, r, wrong, failure)
	return ran{out: out, known: known}, err
}

// toldFailure is the failure that a program's stream tells of.
func (s *Set) toldFailure(subject string, f *team.Failure, e ending) *team.Failure {
	told := *f
	told.Message = s.message("%s: %s", subject, f.Message)
	told.Output = e.evidence(&e.out.tail)
	return &told
}
