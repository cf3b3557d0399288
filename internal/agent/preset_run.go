package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/transcript"
)

// program runs an agent program of a preset. A conversation that has outgrown
// its model is over: continued, it would only do so again.
func (s *Set) program(ctx context.Context, d Definition, job session.Job, st *stage) (ran, error) {
	got, err := s.goOn(ctx, d, job, st)
	var f *failures.Failure
	if errors.As(err, &f) && f.Category == failures.ContextOverflow {
		if err := forgetConversation(job.Home); err != nil {
			return got, broken("agent "+job.Agent, err)
		}
	}
	return got, err
}

// goOn runs the program, in the conversation that it has led before if it may.
// If the program does not know it any more, it starts anew, once.
func (s *Set) goOn(ctx context.Context, d Definition, job session.Job, st *stage) (ran, error) {
	var last conversation
	if job.Continues {
		last, _ = readConversation(job.Home, d.Preset)
		last.Booked = last.Booked.Max(st.call.log.messages[last.ID]) // it may have been cut off since
	}
	got, lost, err := s.talk(ctx, d, job, st, last)
	if !lost || ctx.Err() != nil {
		return got, err
	}
	if err := forgetConversation(job.Home); err != nil {
		return got, broken("agent "+job.Agent, err)
	}
	// What it spent on another conversation before it was stopped is paid, too.
	st.call.spent = got.out.Usage
	job.Begun = time.Time{} // the first run's log has what was said before
	again, _, err := s.talk(ctx, d, job, st, conversation{})
	again.out.Log = append(append(got.out.Log, '\n'), again.out.Log...)
	return again, err
}

// errLost ends a program that leads another conversation than it was to.
var errLost = failures.Failf(failures.Unknown, "does not know the conversation to continue")

// talk runs the program once. lost: it did not know the conversation.
func (s *Set) talk(ctx context.Context, d Definition, job session.Job, st *stage, goesOn conversation) (got ran, lost bool, err error) {
	subject := "agent " + job.Agent
	dialect, r := dialectOf(d.Preset), runOf(d, job, goesOn)
	progress := newProgress(job.Progress)
	halt := make(chan *failures.Failure, 1)
	told, reader := s.story(d, job, goesOn, progress, halt), dialect.reader(r)
	told.before, told.used, told.next = st.call.spent, st.call.spent, st.call.estimate()
	listening := &listener{story: told, call: st.call}
	stop := listening.watch()
	e := s.launcher.run(ctx, process{
		argv: dialect.complete(s.resolve(d.Argv), r), stdin: []byte(prompt(job, goesOn.ID != "")),
		dir: st.place.dir, env: st.env, timeout: st.timeout, idle: d.IdleTimeout.Std(), lock: job.Lock, progress: progress, said: job.Said, begun: job.Begun,
		halt: halt,
		events: func(out *stream) *eventLines {
			told.log = transcript.New(saying{out}, s.Mask)
			return &eventLines{take: func(line []byte) {
				if !listening.event(reader, line) {
					out.say(string(line))
				}
			}}
		},
	})
	stop()
	stderr := e.evidence(&e.err.tail)
	reader.end(e.Exit, stderr, told)
	listening.look()
	if told.total != (cost.Usage{}) && (goesOn.ID == "" || goesOn.ID == told.id) {
		// The next run books from here on. If this cannot be noted, it books
		// too much rather than too little.
		_ = conversation{Preset: d.Preset, ID: told.id, Booked: told.total}.write(job.Home)
	}
	lost = goesOn.ID != "" && (e.stopped == errLost || told.id == "" && dialect.unknown(stderr))
	got, err = s.judgeStory(subject, e, st.box, told)
	return got, lost, err
}

// story prepares what a run's stream will tell.
func (s *Set) story(d Definition, job session.Job, goesOn conversation, progress *progress, halt chan<- *failures.Failure) *story {
	stop := func(f *failures.Failure) {
		select {
		case halt <- f:
		default: // it is being ended already
		}
	}
	told := &story{stop: stop, waits: map[string]bool{"": true}, line: func(text string) { progress.line(s.Mask(safetext.Line(text))) }}
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
	told.spent = func(used, next cost.Usage) {
		if job.Calls == nil {
			return
		}
		var f *failures.Failure
		if err := job.Calls.Report(d.priced(used), d.priced(next)); errors.As(err, &f) {
			stop(&failures.Failure{Category: f.Category, Message: "was stopped: " + f.Message, Final: f.Final})
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
			failure = s.toldFailure(subject, told, e)
		case failure == nil && !told.done:
			failure = &failures.Failure{
				Category: failures.Unknown, Output: e.said(),
				Message: s.message("%s: its output stream ended without a result", subject),
			}
		case r.Error != nil:
			failure = s.reported(subject, r.Error, e)
		}
	}
	used := told.used
	if used == (cost.Usage{}) {
		used = r.Usage
	}
	r.Summary, r.Usage = or(r.Summary, told.summary), used
	out, err := s.outcome(subject, e, r, wrong, failure)
	return ran{out: out, known: told.over(e) || used != (cost.Usage{}) && !told.asking(), estimate: told.next}, err
}

// over tells whether a program ended with no request under way: by itself, before
// anything had begun or when all was said, or while it waited for its provider.
func (s *story) over(e ending) bool {
	return s.hopeless || e.own() && e.Signal == 0 && (s.id == "" || s.done || s.counted)
}

// listener hears a program's stream, and looks into its files meanwhile: some programs
// tell only there what their requests have used.
type listener struct {
	mu    sync.Mutex
	story *story
	call  *programCall
}

// lookEvery is how often a program's files are looked into.
const lookEvery = time.Second

func (l *listener) event(r reader, line []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return r.event(line, l.story)
}

// look takes up what the files tell.
func (l *listener) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call.log.update()
	if used := l.call.noted(); used != (cost.Usage{}) && used.Validate() == nil {
		l.story.costs(used, l.call.log.next())
	}
}

// watch looks again and again, until it is stopped.
func (l *listener) watch() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.look()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// toldFailure is the failure that a program's stream tells of.
func (s *Set) toldFailure(subject string, told *story, e ending) *failures.Failure {
	f := *told.failure
	if !f.Final && (f.Category == failures.RateLimited || f.Category == failures.APIError) {
		f.RetryAfter = limitReset(&f, told.resets, s.now())
	}
	f.Message = s.message("%s: %s", subject, f.Message)
	f.Output = e.evidence(&e.out.tail)
	return &f
}
