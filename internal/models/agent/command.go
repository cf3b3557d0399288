package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
)

// attemptResult is the result of an attempt.
type attemptResult struct {
	out session.Outcome
	// known: the outcome's usage is the whole cost of the attempt. If not, estimate is the
	// additional cost; zero: unknown.
	known    bool
	estimate cost.Usage
}

// encodeBrief returns the document that a command agent reads. It has no HTML escapes, which makes it easier to read for
// shell scripts.
func encodeBrief(b session.Brief) []byte {
	if b.Decisions == nil {
		b.Decisions = map[string]string{}
	}
	if b.Inputs == nil {
		b.Inputs = []string{}
	}
	return append(wire.Encode(b), '\n')
}

// stage is the preparation of an attempt.
type stage struct {
	place
	env     []string
	results *os.Root
	timeout time.Duration
	// call is the usage of a preset's program.
	call *programCall
	// via is the attempt's access to the gateway; nil: none.
	via *gatewayAccess
}

// process returns the agent's process, without parts that differ by program. A failure that is
// sent to halt stops the process.
func (st *stage) process(d Definition, job session.Job) (p procgroup.Process, halt chan *failures.Failure) {
	p = procgroup.Process{
		Dir: st.inside.Tree, Room: st.room, Floor: st.floor, Services: st.services, Env: st.env, Timeout: st.timeout,
		IdleTimeout: d.IdleTimeout.Std(), Waits: job.Waits,
		Lock: job.Lock, Progress: job.Progress, LogFile: job.LiveLog, Begun: job.Begun,
	}
	halt = make(chan *failures.Failure, 1)
	if st.via != nil {
		halt, p.Secrets, p.Captured = st.via.halt, st.via.secrets, st.via.log.Store
	}
	p.Halt = halt
	return p, halt
}

// stage prepares the directories, the environment, the place for the result and, if the agent
// wants it, the repository. The caller must close its directory of results.
func (s *Set) stage(ctx context.Context, d Definition, job session.Job, via *gatewayAccess, caches []view) (*stage,
	session.Outcome, error,
) {
	st := &stage{
		place: s.place(job.WorkDir, needs{
			argv: s.resolve(d.Argv), env: d.Env, caches: caches, network: d.Network, mounts: d.mounts(),
		}),
		timeout: smaller(d.Timeout.Std(), job.Timeout.Std()), via: via,
	}
	if err := s.prepare(st, d, job, caches); err != nil {
		return nil, session.Outcome{}, hostFailure("agent "+job.Agent, err)
	}
	if d.Git {
		if out, err := s.commit(ctx, st.place, st.env, job.Lock); err != nil {
			_ = st.results.Close() // a directory
			return nil, out, err
		}
	}
	st.env = append(st.env, resultVariable+"="+filepath.Join(resultDir(st.inside.Home), resultName))
	return st, session.Outcome{}, nil
}

// prepare prepares the directories, the environment and the place for the result.
func (s *Set) prepare(st *stage, d Definition, job session.Job, caches []view) (err error) {
	if st.via != nil {
		if err = s.connect(&st.place, d, st.via); err != nil {
			return err
		}
		if program := preset.For(d.Preset); program != nil {
			if err = writeSettings(job.Home, program); err != nil {
				return err
			}
		}
	}
	if st.env, err = s.environment(st.place, d.Env, caches); err != nil {
		return err
	}
	if !job.Continues && !job.New { // remove files of an earlier attempt
		err = errors.Join(bounded.RemoveTree(job.Tmp), os.Mkdir(job.Tmp, 0o700))
	}
	if err = errors.Join(err, s.chown(job.WorkDir)); err != nil {
		return err
	}
	if d.Preset == "" || !job.Continues {
		if err = ForgetConversation(job.Home); err != nil {
			return err
		}
	}
	st.results, err = openResultDir(job.Home, s.launcher.User)
	return err
}

// attempt runs an agent that is a program, and evaluates its result.
func (s *Set) attempt(ctx context.Context, d Definition, job session.Job, call *programCall, via *gatewayAccess) (attemptResult,
	error,
) {
	subject := "agent " + job.Agent
	if f := s.networkFailure(subject, d.Network); f != nil {
		return attemptResult{known: true}, f
	}
	caches, release, err := s.views(job.WorkDir, job.Team, d.Caches, false)
	if err != nil {
		return attemptResult{known: true}, hostFailure(subject, err)
	}
	defer release()
	st, out, err := s.stage(ctx, d, job, via, caches)
	if err != nil {
		return attemptResult{out: out, known: true}, err
	}
	defer st.results.Close() //nolint:errcheck // a directory
	if d.Preset != "" {
		st.call = call
		return s.program(ctx, d, job, st)
	}
	p, _ := st.process(d, job)
	p.Argv, p.Stdin = s.resolve(d.Argv), encodeBrief(job.Brief)
	e := s.launch(ctx, p, st)
	return s.judge(subject, e, st.results)
}

// launch runs the agent's process. If there is a gateway, its log contains all calls when launch
// returns.
func (s *Set) launch(ctx context.Context, p procgroup.Process, st *stage) procgroup.Result {
	e := s.launcher.Run(ctx, p)
	if st.via != nil {
		st.via.Wait()
		if e.Stopped != nil && e.Stopped.Category == failures.Timeout && p.IdleTimeout > 0 && st.via.Stalled() >= p.IdleTimeout*9/10 {
			e.Stopped = failures.Failf(failures.APIError, "printed nothing for %s, because its provider sent nothing of an answer "+
				"(idle_timeout)", p.IdleTimeout)
		}
	}
	return e
}

func smaller(a, b time.Duration) time.Duration {
	if b > 0 && b < a {
		return b
	}
	return a
}

// judge determines the attempt's outcome from the end of an agent's process.
func (s *Set) judge(subject string, e procgroup.Result, results *os.Root) (attemptResult, error) {
	r, wrong := readResult(results)
	failure := s.failed(subject, e)
	// The result's error is the cause of the exit status. If the process was stopped or killed,
	// the result is not final.
	if r.Error != nil && e.EndedItself() && e.Signal == 0 {
		failure = s.reported(subject, r.Error, e)
	}
	out, err := s.outcome(subject, e, r, wrong, failure)
	return attemptResult{out: out, known: r.Usage != (cost.Usage{}) || e.Exited()}, err
}

// outcome returns an attempt's outcome. wrong is why the result is not valid; nil: it is valid.
// failure is how the attempt failed apart from that; nil: it did not. The usage of a failed
// attempt is counted if it can be read.
func (s *Set) outcome(subject string, e procgroup.Result, r result, wrong error, failure *failures.Failure) (session.Outcome,
	error,
) {
	if failure == nil && wrong != nil {
		failure = &failures.Failure{
			Category: failures.InvalidOutput,
			Message:  s.message("%s: the result in $%s is refused: %v", subject, resultVariable, wrong),
			Output:   e.FailureOutput(),
		}
	}
	if failure == nil {
		failure = s.refuseSecrets(subject, r.Decisions)
	}
	out := session.Outcome{Usage: r.Usage, Summary: textfmt.Shorten(s.Mask(safetext.Block(r.Summary)), session.MaxSummary)}
	if failure == nil {
		out.Decisions = r.Decisions
		out.Kept = session.MaskedKept(r.Kept, func(why string) string { return s.Mask(safetext.Block(why)) })
		if r.SendsBack != nil {
			out.SendsBack = s.maskedReasons(r.SendsBack.Reasons)
		}
	}
	err := complete(&out, e, failure)
	return out, err
}

// complete adds the log to the outcome, and chooses the error of the run.
func complete(out *session.Outcome, e procgroup.Result, failure *failures.Failure) error {
	if failure != nil {
		e.Note("%s", failure.Error())
	}
	out.Log = e.Log()
	switch {
	case e.Cancelled != nil:
		return e.Cancelled
	case failure != nil:
		return failure
	}
	return nil
}

// failed returns why a process did not succeed, from its end alone; nil if it did.
func (s *Set) failed(subject string, e procgroup.Result) *failures.Failure {
	f := s.endedBadly(subject, e)
	if f != nil {
		f.Output = e.FailureOutput()
	}
	return f
}

func (s *Set) endedBadly(subject string, e procgroup.Result) *failures.Failure {
	fail := func(c failures.Category, format string, args ...any) *failures.Failure {
		return &failures.Failure{Category: c, Message: s.message("%s: %s", subject, fmt.Sprintf(format, args...))}
	}
	switch {
	case e.Err != nil && e.Started:
		return fail(failures.Unknown, "%v", e.Err)
	case e.Err != nil:
		return fail(failures.ResourceError, "%v", e.Err)
	case e.Cancelled != nil:
		return fail(failures.Cancelled, "%v", e.Cancelled)
	case e.Stopped != nil:
		return &failures.Failure{Category: e.Stopped.Category, Message: s.message("%s %s", subject, e.Stopped.Message)}
	case e.StartError != "":
		f := fail(failures.ResourceError, "cannot %s", e.StartError)
		f.Final = !e.Temporary // only a person can install a missing program
		return f
	case e.ThreadsExceeded != 0:
		return fail(failures.Unknown, "stopped, because it ran %d threads at once; at most %d are allowed", e.ThreadsExceeded,
			s.launcher.Threads.Each)
	case e.Immeasurable:
		return fail(failures.InvalidOutput, "stopped, because its use of memory and threads could not be measured in time; let it "+
			"run fewer processes")
	case e.MemoryExceeded != 0:
		return fail(failures.InvalidOutput, "stopped, because it used %s of memory; at most %s are allowed (limits.memory)",
			textfmt.Size(e.MemoryExceeded), textfmt.Size(s.launcher.MaxMemory))
	case e.Signal != 0:
		return fail(failures.Unknown, "killed by signal %d (%s)%s", e.Signal, syscall.Signal(e.Signal), colon(e.Stderr.LastLine()))
	case e.Exit != 0:
		return fail(failures.Unknown, "exit status %d%s", e.Exit, colon(e.Stderr.LastLine()))
	}
	return nil
}

func colon(line string) string {
	if line == "" {
		return ""
	}
	return ": " + line
}

// reported converts the error in an agent's result into a failure.
func (s *Set) reported(subject string, r *resultError, e procgroup.Result) *failures.Failure {
	f := &failures.Failure{
		Category: failures.Category(cmp.Or(string(r.Category), string(failures.Unknown))),
		Message:  s.message("%s: %s", subject, cmp.Or(r.Message, "it reported a failure without a message")),
		Output:   textfmt.Tail(s.Mask(safetext.Block(r.Output)), session.MaxOutput),
		Final:    r.Retryable != nil && !*r.Retryable,

		RetryAfter: min(max(r.RetryAfter, 0), session.MaxRetryAfter),
	}
	if f.Output == "" {
		f.Output = e.FailureOutput()
	}
	return f
}

// refuseSecrets returns a failure if a decision contains a secret. Decisions are part of
// histories, and masking would change their meaning.
func (s *Set) refuseSecrets(subject string, decisions map[string]string) *failures.Failure {
	for _, name := range slices.Sorted(maps.Keys(decisions)) {
		if s.secrets.In(name) || s.secrets.In(decisions[name]) {
			return &failures.Failure{
				Category: failures.InvalidOutput,
				Message:  s.message("%s: the decision %q contains a secret of the worker; remove it", subject, name),
			}
		}
	}
	return nil
}

// maskedReasons masks and bounds the reasons for which work is sent back.
func (s *Set) maskedReasons(reasons []string) []string {
	out := make([]string, len(reasons))
	for i, reason := range reasons {
		out[i] = s.Mask(safetext.Block(reason))
	}
	return out
}

// message makes a failure's message: one masked line of bounded length.
func (s *Set) message(format string, args ...any) string {
	// Mask first, because safetext.Line merges spaces, and a secret may contain several spaces.
	return textfmt.Shorten(s.Mask(safetext.Line(s.Mask(fmt.Sprintf(format, args...)))), session.MaxMessage)
}
