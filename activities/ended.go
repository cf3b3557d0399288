package activities

import (
	"context"
	"path/filepath"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// endedCost is the cost of the attempt's agent, if an earlier execution has noted its end.
func (l *roundRows) endedCost() *endedCost {
	log := l.snapshot()
	if log.Ended == nil {
		return nil
	}
	return &endedCost{l.attemptKey(), log.Ended.Outcome.Usage}
}

// resumeEndedAgent returns the end of the attempt's agent if an earlier execution has noted it, with a directory that has the
// agent's files. ok is false if the agent has not ended, or its files are lost.
func (a *attempt) resumeEndedAgent(ctx context.Context) (end attemptEnd, ok bool, err error) {
	ended := a.rows.snapshot().Ended
	if ended == nil {
		return end, false, nil
	}
	end.from, end.outcome = ended.From, ended.Outcome
	err = a.exec.retryStore(ctx, func() error {
		end.dir, ok, err = a.reopen(ctx, *ended)
		return err
	})
	if err != nil || !ok {
		return attemptEnd{}, false, err
	}
	end.elsewhere = nameOf(end.dir) != ended.Directory
	if ended.Transcript != "" {
		end.outcome.Log, _ = a.Files.Blob(ctx, ended.Transcript) // a lost transcript is no reason to work again
	}
	a.spender.setAttempt(a.rows.attemptKey(), nil)
	activity.GetLogger(ctx).Info("the agent has ended before; its work is collected and checked", "collected", ended.Files != "")
	return end, true, a.rows.noteAgentEnded(ctx, *ended)
}

// reopen opens the directory with the files of an agent that has ended. ok is false if this host does not have them, and they
// were not collected.
func (a *attempt) reopen(ctx context.Context, ended session.AgentEnded) (dir session.WorkDir, ok bool, err error) {
	if dir, err = a.exec.dir.openWithSpace(); err != nil {
		return dir, false, err
	}
	from := start{files: ended.Files}
	if ended.Files == "" || a.Files.Intact(ctx, ended.Files) != nil { // else a check may have changed what is here
		if from.asLeft = nameOf(dir) == ended.Directory; !from.asLeft {
			return dir, false, nil
		}
	}
	dir, err = a.fill(ctx, dir, from)
	return dir, err == nil, err
}

// nameOf is the random name of an assignment's directory: no other host, and no later directory, has the same.
func nameOf(dir session.WorkDir) string { return filepath.Base(filepath.Dir(dir.Tree)) }

// collectLeft collects the files of a failed agent. The next attempt gets the changes or
// continues from them. Files that cannot be stored are not another failure.
func (a *attempt) collectLeft(ctx context.Context, err error, dir session.WorkDir, req session.Collect,
	outcome *session.Outcome,
) spec.Digest {
	if _, failed := asFailure(err); !failed || ctx.Err() != nil {
		return ""
	}
	a.exec.dir.restoreAccess()
	collected, err := a.Files.Collect(ctx, req)
	if err != nil {
		return ""
	}
	a.nameLeftOut(collected, outcome)
	if len(collected.Protected)+len(collected.LeftOut) == 0 {
		a.exec.dir.workDirs.NoteCollected(dir, collected.Output)
	}
	return collected.Output
}
