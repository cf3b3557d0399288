package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
)

// Check runs a check in job.Tree, which it may write to. It returns when the check and all its
// descendants have ended. Exit status 0 passes. Otherwise the error is a *failures.Failure with
// the end of the check's output, and the outcome has the log. If the context ends, Check stops
// the check and returns the context's cause.
func (s *Set) Check(ctx context.Context, job session.CheckJob) (session.Outcome, error) {
	subject := "check " + job.Check
	d, ok := s.config.Checks[job.Check]
	if !ok {
		return session.Outcome{}, failures.Failf(failures.ResourceError, "check %q not found in this worker's file",
			textfmt.Shorten(job.Check, 80))
	}
	if f := s.networkFailure(subject, d.Network); f != nil {
		return session.Outcome{}, f
	}
	dirs := job.WorkDir
	fills := false
	if job.Input != "" {
		unlock, ok := s.lockBases(job)
		if fills = ok; ok {
			defer unlock()
		}
	}
	views, release, err := s.views(dirs, job.Team, d.Caches, fills)
	if err != nil {
		return session.Outcome{}, hostFailure(subject, err)
	}
	defer release()
	at := s.place(dirs, needs{argv: d.Argv, env: d.Env, caches: views, network: d.Network})
	env, err := s.environment(at, d.Env, views)
	if err != nil {
		return session.Outcome{}, hostFailure(subject, err)
	}
	if err := s.chown(dirs); err != nil {
		return session.Outcome{}, hostFailure(subject, err)
	}
	e := s.launcher.Run(ctx, procgroup.Process{
		Argv: d.Argv, Dir: at.inside.Tree, Room: at.room, Floor: at.floor, Services: at.services, Env: env, Timeout: d.Timeout.Std(),
		Lock:     job.Lock,
		Progress: job.Progress, ProgressFromStdout: true,
	})
	if fills && e.EndedItself() {
		s.keepCaches(ctx, job, views)
	}
	var out session.Outcome
	err = complete(&out, e, s.checkFailure(subject, d, e))
	return out, err
}

// checkFailure returns why a check failed; nil if it passed.
func (s *Set) checkFailure(subject string, d CheckDefinition, e procgroup.Result) *failures.Failure {
	failure := s.endedBadly(subject, e)
	if failure == nil {
		return nil
	}
	how := ""
	switch {
	case e.StartError != "" && strings.Contains(d.Argv[0], "/") && !filepath.IsAbs(d.Argv[0]):
		how = "cannot " + e.StartError // the tree lacks its own program
	case !e.EndedItself():
	case e.Signal != 0:
		how = fmt.Sprintf("killed by signal %d (%s)", e.Signal, syscall.Signal(e.Signal))
	default:
		how = fmt.Sprintf("exit status %d", e.Exit)
	}
	if how != "" {
		failure = &failures.Failure{Category: d.Category, Message: s.message("%s failed: %s", subject, how)}
	}
	failure.Output = e.Tail()
	return failure
}

// Keep returns the patterns of files that a check may leave in the tree.
func (s *Set) Keep(check string) []string { return s.config.Checks[check].Keep }
