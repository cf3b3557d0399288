package agent

import (
	"context"
	"fmt"
	"syscall"

	"github.com/maestro-hive/maestro/internal/team"
)

// Check runs a check in job.Dir, which it may write to, and returns when it and
// all that it started are gone. Exit status 0 passes. Anything else is a
// *team.Failure, whose output is the end of what the check printed; the outcome
// then still has the log. A context that ends stops the check and returns the
// context's cause.
func (s *Set) Check(ctx context.Context, job team.CheckJob) (team.Outcome, error) {
	subject := "check " + job.Check
	d, ok := s.config.Checks[job.Check]
	if !ok {
		return team.Outcome{}, team.Failf(team.ResourceError, "this worker's file defines no check %q", team.Shorten(job.Check, 80))
	}
	p := place{dir: job.Dir, home: job.Home, tmp: job.Tmp}
	if err := p.check(); err != nil {
		return team.Outcome{}, broken(subject, err)
	}
	env, err := s.environment(p, d.Env, d.Caches)
	if err != nil {
		return team.Outcome{}, broken(subject, err)
	}
	if err := s.launcher.user.give(p.dir, p.home, p.tmp); err != nil {
		return team.Outcome{}, broken(subject, err)
	}
	e := s.launcher.run(ctx, process{
		argv: d.Argv, dir: p.dir, env: env, timeout: d.Timeout.Std(),
		progress: newProgress(job.Progress), both: true,
	})
	failure := s.verdict(subject, d.Category, e)
	if failure != nil {
		e.note("%s", failure.Error())
	}
	out := team.Outcome{Log: e.transcript()}
	if e.stopped != nil && !isFailure(e.stopped) {
		return out, e.stopped
	}
	if failure != nil {
		return out, failure
	}
	return out, nil
}

// verdict says why a check failed; nil if it passed.
func (s *Set) verdict(subject string, category team.Category, e ending) *team.Failure {
	failure := s.endedBadly(subject, e)
	if failure == nil {
		return nil
	}
	if e.ranToItsEnd() || e.stopped == nil && e.Signal != 0 {
		how := fmt.Sprintf("exit status %d", e.Exit)
		if e.Signal != 0 {
			how = fmt.Sprintf("killed by signal %d (%s)", e.Signal, syscall.Signal(e.Signal))
		}
		failure = &team.Failure{Category: category, Message: s.message("%s failed: %s", subject, how)}
	}
	failure.Output = e.evidence(&e.tail)
	return failure
}

// Keep lists the patterns of files that a check may leave.
func (s *Set) Keep(check string) []string { return s.config.Checks[check].Keep }
