package activities

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// checks runs checks on collected work and collects the files that they may leave. They run in
// directories of their own if trees are layered, otherwise in that of the execution.
type checks struct {
	exec    *execution
	files   Files
	session sessionContext
}

// collect stores the changes. The work is already paid for, so it waits for a store
// that cannot be used.
func (c checks) collect(ctx context.Context, req session.Collect) (collected session.Collected, err error) {
	err = c.exec.retryStore(ctx, func() error {
		if full := c.exec.dir.now().full; full != nil {
			return diskFilledError{full}
		}
		c.exec.dir.restoreAccess()
		collected, err = c.files.Collect(ctx, req)
		return err
	})
	return collected, err
}

// verify checks whether collected work fulfils a contract. It returns the work with the files
// that the checks may leave, also if one of them has failed.
func (c checks) verify(ctx context.Context, contract spec.Contract, dir session.WorkDir, req session.Collect,
	work session.Collected, outcome *session.Outcome,
) (session.Collected, error) {
	if f := notProduced(contract.Produces, work.Changed); f != nil {
		return work, f
	}
	if len(contract.Checks) > 0 {
		defer func() { _ = c.exec.dir.workDirs.ClearCheckDir(dir) }() // the next check clears it otherwise
	}
	for _, name := range contract.Checks {
		if err := c.fillCaches(ctx, name, dir, work.Output); err != nil {
			return work, err
		}
		c.exec.setProgress("check " + name)
		result, at, err := c.run(ctx, name, dir, work.Output)
		outcome.Log = bytes.Join([][]byte{outcome.Log, []byte("--- check " + name), result.Log}, []byte("\n"))
		if err != nil {
			return work, err
		}
		keep := c.exec.agents.Keep(name)
		if len(keep) == 0 {
			continue
		}
		req.Only, req.On = keep, work.Output
		req.Dir, req.Lower = at.Tree, at.Lower()
		if work, err = c.collect(ctx, req); err != nil {
			return work, err
		}
	}
	return work, nil
}

// run runs one check on a tree. dir also has the tree. at is the directory of the check.
func (c checks) run(ctx context.Context, name string, dir session.WorkDir, tree spec.Digest) (outcome session.Outcome,
	at session.WorkDir, err error,
) {
	err = c.exec.retryStore(ctx, func() (err error) {
		at, err = c.exec.dir.hold(c.exec.dir.workDirs.MakeCheckDir(ctx, dir, tree, dir.Lower()))
		return err
	})
	if err != nil {
		return outcome, at, err
	}
	err = c.exec.dir.watch(ctx, "the check "+name, true, time.Time{}, func(ctx context.Context) (err error) {
		job := session.CheckJob{Check: name, Team: c.domain(), WorkDir: at, Lock: c.exec.lock(), Progress: c.exec.setProgress}
		if at.Layers != nil && tree == c.session.checkpoint.Workspace {
			job.Input = tree
		}
		outcome, err = c.exec.agents.Check(ctx, job)
		return err
	})
	return outcome, at, err
}

// fillCaches runs a check on the session's input first, if its caches have nothing of that kind: what code of an agent
// leaves in a cache is used by nobody else. How the check ends there does not matter.
func (c checks) fillCaches(ctx context.Context, name string, dir session.WorkDir, tree spec.Digest) error {
	input := c.session.checkpoint.Workspace
	if tree == input || !c.exec.dir.workDirs.HasLayers() || !c.exec.agents.FillsCaches(name, c.domain(), input) {
		return nil
	}
	c.exec.setProgress("check " + name + " of the session's input, to fill its caches")
	_, _, err := c.run(ctx, name, dir, input)
	if _, failed := asFailure(err); failed && ctx.Err() == nil && c.exec.dir.now().full == nil {
		return nil
	}
	return err
}

// domain is whose caches checks use: those of the session's team.
func (c checks) domain() string { return session.CacheDomain(c.exec.key, c.session.team.Name) }

// notProduced returns the failure of work without a created or changed file for one of the
// patterns; nil: each pattern has one.
func notProduced(patterns, changed []string) *failures.Failure {
	for _, pattern := range patterns {
		found := false
		for _, path := range changed {
			if ok, err := doublestar.Match(pattern, path); err == nil && ok {
				found = true
				break
			}
		}
		if !found {
			return failures.Failf(failures.ContractViolation, "%s was neither created nor changed", pattern)
		}
	}
	return nil
}

// contractOf returns the contract of the attempts of a round.
func contractOf(t spec.Team, in RoundInput) spec.Contract {
	if in.Integrating { // the merge verifies what it fixed
		return spec.Contract{}
	}
	return t.Contract(in.AssignmentID)
}

// try lets an agent run a check on the directory as it is. Files that the check leaves
// are removed, so that only the agent's changes count.
func (a *attempt) try(dir session.WorkDir, req session.Collect) func(ctx context.Context, check string) ([]byte, error) {
	return func(ctx context.Context, check string) ([]byte, error) {
		collected, err := a.checks.collect(ctx, req)
		if err != nil {
			return nil, err
		}
		outcome, _, failed := a.checks.run(ctx, check, dir, collected.Output)
		if !a.exec.dir.workDirs.HasLayers() {
			err = a.exec.retryStore(ctx, func() error { return a.Files.Materialise(ctx, collected.Output, dir.Tree) })
		}
		return outcome.Log, errors.Join(failed, err)
	}
}
