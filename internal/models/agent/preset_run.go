package agent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
)

// withPreset fills in the preset's defaults.
func (d Definition) withPreset() Definition {
	program := preset.For(d.Preset)
	if d.Kind != KindCommand || program == nil {
		return d
	}
	if len(d.Argv) == 0 {
		d.Argv = program.Argv
	}
	d.Git = d.Git || program.NeedsGit(d.Argv)
	return d
}

// mounts reports whether the agent's program makes a sandbox with mounts.
func (d Definition) mounts() bool {
	program := preset.For(d.Preset)
	return program != nil && program.Mounts(d.Argv)
}

// invocation returns the parameters of an agent's run on a job.
func invocation(d Definition, job session.Job, at place, resumed session.Conversation) preset.Invocation {
	r := preset.Invocation{
		Model: d.Model, MaxTurns: job.MaxTurns, ResultDir: resultDir(at.inside.Home), Offline: d.offline(),
		Conversation: resumed,
	}
	if program := preset.For(d.Preset); len(d.Gateway) > 0 {
		its := program.API.Programs()
		r.BaseURL, r.KeyVariable = at.variables[its.BaseURL], its.Key
	}
	if r.MaxTurns == 0 {
		r.MaxTurns = d.MaxTurns
	}
	return r
}

// program runs an agent program of a preset. A conversation that has outgrown its model's
// context is not resumed: it would fail again.
func (s *Set) program(ctx context.Context, d Definition, job session.Job, st *stage) (attemptResult, error) {
	got, err := s.resume(ctx, d, job, st)
	var f *failures.Failure
	if errors.As(err, &f) && f.Category == failures.ContextOverflow {
		if err := ForgetConversation(job.Home); err != nil {
			return got, hostFailure("agent "+job.Agent, err)
		}
	}
	return got, err
}

// resume runs the program and resumes its last conversation if the job permits it. If the
// program does not know the conversation any more, resume starts a new one, once.
func (s *Set) resume(ctx context.Context, d Definition, job session.Job, st *stage) (attemptResult, error) {
	var last session.Conversation
	if job.Continues {
		last, _ = ReadConversation(job.Home, d.Preset)
		last.Booked = last.Booked.Max(st.call.log.Messages[last.ID]) // it may have been cut off since
	}
	got, lost, err := s.runOnce(ctx, d, job, st, last)
	if !lost || ctx.Err() != nil {
		return got, err
	}
	if err := ForgetConversation(job.Home); err != nil {
		return got, hostFailure("agent "+job.Agent, err)
	}
	// What it spent on another conversation before it was stopped is paid, too.
	st.call.spent = got.out.Usage
	job.Begun = time.Time{} // the first run's log has what was said before
	again, _, err := s.runOnce(ctx, d, job, st, session.Conversation{})
	again.out.Log = append(append(got.out.Log, '\n'), again.out.Log...)
	return again, err
}

// lingerGrace is how long a program may stay after it has reported its end and has stopped working. Each event after the
// report begins the time anew, but for lingerMost in all. The time does not run while the program works, see
// [preset.Run.Working].
const (
	lingerGrace = 5 * time.Second
	lingerMost  = 15 * time.Second
)

// errLingers stops a program that has reported its end and does not end.
var errLingers = failures.Failf(failures.Unknown, "has reported its end, and does not end")

// errLost stops a program that does not resume the conversation that it should.
var errLost = failures.Failf(failures.Unknown, "does not know the conversation to continue")

// runOnce runs the program once. lost: it did not know the conversation to resume.
func (s *Set) runOnce(ctx context.Context, d Definition, job session.Job, st *stage,
	resumed session.Conversation,
) (got attemptResult, lost bool, err error) {
	subject := "agent " + job.Agent
	program, r := preset.For(d.Preset), invocation(d, job, st.place, resumed)
	p, halt := st.process(d, job)
	run, parser := s.newRun(d, job, st.call.paid, resumed, p.Progress, halt), program.Parser(r)
	run.Before, run.Used, run.Next = st.call.spent, st.call.spent, st.call.estimate()
	watcher, stop := &usageWatcher{run: run, call: st.call}, func() {}
	watcher.linger = time.AfterFunc(procgroup.Forever, func() { run.Stop(errLingers) })
	watcher.most = time.AfterFunc(procgroup.Forever, func() { run.Stop(errLingers) })
	defer watcher.linger.Stop()
	defer watcher.most.Stop()
	if st.call.paid != nil {
		stop = watcher.poll()
	}
	p.Argv, p.Stdin = program.Command(s.resolve(d.Argv), r), []byte(prompt(job, st.place, resumed.ID != ""))
	p.Events = func(out *procgroup.Stream) *procgroup.Lines {
		run.Warnings = transcript.New(out.Writer(), s.Mask)
		run.Log = run.Warnings
		if st.via != nil { // the gateway writes the transcript
			run.Log = transcript.New(io.Discard, s.Mask)
		}
		return &procgroup.Lines{OnLine: func(line []byte) {
			if !watcher.event(parser, line) {
				out.Print(string(line))
			}
		}}
	}
	e := s.launch(ctx, p, st)
	stop()
	stderr := e.Stderr.Tail()
	parser.End(e.Exit, stderr, run)
	watcher.read()
	if run.Total != (cost.Usage{}) && (resumed.ID == "" || resumed.ID == run.ConversationID) {
		// The next run counts from here on. If this cannot be written, the next run counts
		// too much rather than too little.
		_ = WriteConversation(job.Home, session.Conversation{
			Preset: d.Preset, ID: run.ConversationID, Booked: run.Total,
			Home: resumed.Home,
		})
	}
	lost = resumed.ID != "" && (e.Stopped == errLost || run.ConversationID == "" && program.ConversationUnknown(stderr))
	got, err = s.runOutcome(subject, e, st.results, run)
	return got, lost, err
}

// newRun prepares a run. Spending above the budget and a wrong conversation stop the program.
func (s *Set) newRun(d Definition, job session.Job, paid session.Call, resumed session.Conversation, progress func(string),
	halt chan<- *failures.Failure,
) *preset.Run {
	stop := func(f *failures.Failure) {
		select {
		case halt <- f:
		default: // it is being ended already
		}
	}
	run := &preset.Run{
		Stop: stop, Pending: map[string]bool{"": true}, Tasks: map[string]bool{},
		OnLine: func(text string) { procgroup.Say(progress, s.Mask(safetext.Line(text))) },
	}
	run.OnConversation = func(id string) {
		switch {
		case resumed.ID != "" && id != resumed.ID:
			stop(errLost)
		case resumed.ID == "" && conversationID.MatchString(id):
			if err := WriteConversation(job.Home, session.Conversation{Preset: d.Preset, ID: id}); err != nil {
				run.Warn(err.Error())
			}
		}
	}
	run.OnUsage = func(used, next cost.Usage) {
		if paid == nil {
			return
		}
		var f *failures.Failure
		if err := paid.Report(d.priced(used), d.priced(next)); errors.As(err, &f) {
			stop(&failures.Failure{Category: f.Category, Message: "was stopped: " + f.Message, Final: f.Final})
		}
	}
	return run
}

// runOutcome makes the attempt's outcome of the program's end and its event stream. What the program has reported of its
// work is worth more than how its process has ended: by its exit status, a signal, a limit or the end of the grace.
func (s *Set) runOutcome(subject string, e procgroup.Result, results *os.Root, run *preset.Run) (attemptResult, error) {
	r, wrong := readResult(results)
	failure := s.failed(subject, e)
	if reported := run.Done && e.Cancelled == nil && e.Err == nil; reported || e.EndedItself() && e.Signal == 0 {
		if reported {
			failure = nil
		}
		switch {
		case run.Failure != nil:
			failure = s.streamFailure(subject, run, e)
		case failure == nil && !run.Done:
			failure = &failures.Failure{
				Category: failures.Unknown, Output: e.FailureOutput(),
				Message: s.message("%s: its output stream ended without a result", subject),
			}
		case r.Error != nil:
			failure = s.reported(subject, r.Error, e)
		}
	}
	used := run.Used
	if used == (cost.Usage{}) {
		used = r.Usage
	}
	r.Summary, r.Usage = cmp.Or(r.Summary, run.Summary), used
	out, err := s.outcome(subject, e, r, wrong, failure)
	return attemptResult{
		out: out, known: noRequestOpen(run, e) || used != (cost.Usage{}) && !run.RequestPending(),
		estimate: run.Next,
	}, err
}

// noRequestOpen says whether a program ended with no request in progress: after its last, by itself before its first, or
// while it waited for its provider.
func noRequestOpen(s *preset.Run, e procgroup.Result) bool {
	return s.GivenUp || s.Done && !s.RequestPending() || e.EndedItself() && e.Signal == 0 && (s.ConversationID == "" || s.UsageKnown)
}

// usageWatcher passes a program's events on and reads its usage files meanwhile: some
// programs report the usage of a request only there.
type usageWatcher struct {
	mu   sync.Mutex
	run  *preset.Run
	call *programCall
	// linger ends a program that has reported its end and is silent, and most one that goes on to report events. idle: they
	// run.
	linger, most *time.Timer
	idle         bool
}

// readInterval is how often a program's usage files are read.
const readInterval = time.Second

func (l *usageWatcher) event(parser preset.Parser, line []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := parser.Event(line, l.run)
	switch {
	case !known || !l.run.Done:
	case l.run.Working():
		l.idle = false
		l.linger.Stop()
		l.most.Stop()
	default:
		if !l.idle {
			l.idle = true
			l.most.Reset(lingerMost)
		}
		l.linger.Reset(lingerGrace)
	}
	return known
}

// read reports the usage that the files have.
func (l *usageWatcher) read() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call.log.Update()
	if used := l.call.noted(); used != (cost.Usage{}) && used.Validate() == nil {
		l.run.SetUsage(used, l.call.log.Next())
	}
}

// poll reads the files at intervals until it is stopped.
func (l *usageWatcher) poll() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(readInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.read()
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

// streamFailure is the failure that a program's event stream reported.
func (s *Set) streamFailure(subject string, run *preset.Run, e procgroup.Result) *failures.Failure {
	f := *run.Failure
	if !f.Final && (f.Category == failures.RateLimited || f.Category == failures.APIError) {
		f.RetryAfter = preset.LimitReset(&f, run.ResetsAt, s.o.Now())
	}
	f.Message = s.message("%s: %s", subject, f.Message)
	f.Output = e.Tail()
	return &f
}

// Conversation returns the conversation of the agent in the directory's HOME. ok is false if
// there is none that an attempt can resume, see [session.Job.Continues].
func (s *Set) Conversation(agent string, dir session.WorkDir) (c session.Conversation, ok bool) {
	d := s.config.Agents[agent]
	if d.Preset == "" {
		return c, false
	}
	return ReadConversation(dir.Home, d.Preset)
}

// ConversationFiles lists patterns of the files below HOME with which the agent continues a
// conversation of a preset; none: it continues no such conversation.
func (s *Set) ConversationFiles(agent, ofPreset string) []string {
	if d := s.config.Agents[agent]; d.Preset == "" || d.Preset != ofPreset {
		return nil
	}
	return preset.For(ofPreset).ConversationFiles
}

// NoteConversation notes a conversation whose files are in a directory's HOME.
func (s *Set) NoteConversation(dir session.WorkDir, c session.Conversation) error {
	return WriteConversation(dir.Home, c)
}

// Forget ends the conversation in an assignment's directory, if there is one.
func (s *Set) Forget(dir session.WorkDir) error { return ForgetConversation(dir.Home) }
