package activities

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// storeWithin bounds, for an attempt that is stopped, how long it takes to store its
// conversation: a stopping worker does not wait for long.
const storeTimeout = 5 * time.Second

// hasConversation reports whether the attempt's agent keeps a conversation in its HOME.
func (a *attempt) hasConversation() bool {
	return a.exec.agents.Offered(a.rows.agent).Conversation == spec.InDirectory
}

// storeConversation stores what the attempt's conversation continues with on another host, for
// the next record: its files below HOME, and the tree that it is about. A conversation with a
// secret, or too large, continues on this host only. An error of the store leaves what the record
// had: a later attempt elsewhere continues from there.
func (a *attempt) storeConversation(ctx context.Context, end attemptEnd) {
	if end.dir.Tree == "" || end.elsewhere || !a.hasConversation() || errors.Is(context.Cause(ctx), session.ErrFenced) {
		return
	}
	c, ok := a.exec.agents.Conversation(a.rows.agent, end.dir)
	if !ok {
		a.rows.setConversation(nil)
		return
	}
	before := a.rows.storedConversation()
	if session.HomeOf(before) != "" && before.ID == c.ID && before.Files == end.files && end.outcome.Usage == (cost.Usage{}) {
		return // the model has said nothing since: a provider that fails for hours costs no space
	}
	if ctx.Err() != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		ctx = bounded
	}
	logger := activity.GetLogger(ctx)
	var err error
	c.Home, c.Files, err = a.collectConversation(ctx, c.Preset, end)
	switch refused, ok := asFailure(err); {
	case ok:
		if before == nil || before.Home != "" {
			logger.Warn("the conversation continues on this host only, because it cannot be stored", "why", refused.Message)
		}
		c.Home, c.Files = "", ""
	case err != nil:
		logger.Warn("the conversation is not stored; on another host it continues from an earlier point", "error", err)
		return
	}
	a.rows.setConversation(&c)
}

// collectConversation stores a conversation's files below HOME, and the tree unless the attempt
// has collected that.
func (a *attempt) collectConversation(ctx context.Context, preset string, end attemptEnd) (home, files spec.Digest, err error) {
	a.exec.dir.restoreAccess()
	if files = end.files; files == "" {
		collected, err := a.Files.Collect(ctx, a.collection(end.dir))
		if err != nil {
			return "", "", err
		}
		files = collected.Output
	}
	collected, err := a.Files.Collect(ctx, session.Collect{
		Dir: end.dir.Home, Only: a.exec.agents.ConversationFiles(a.rows.agent, preset), Secrets: a.exec.agents.Secrets(),
	})
	if err == nil && len(collected.LeftOut) > 0 { // a part of a conversation is none
		err = failures.Failf(failures.InvalidOutput, "a file of the conversation cannot be kept: %s", collected.LeftOut[0])
	}
	return collected.Output, files, err
}

// noteConversation notes beside HOME which stored conversation HOME has, once the record has
// it. Without the note, the next attempt restores it from the store.
func (a *attempt) noteConversation(dir session.WorkDir) {
	stored := a.rows.storedConversation()
	if dir.Home == "" || stored == nil {
		return
	}
	if here, ok := a.exec.agents.Conversation(a.rows.agent, dir); ok && here.ID == stored.ID && here.Home != stored.Home {
		here.Home = stored.Home
		_ = a.exec.agents.NoteConversation(dir, here)
	}
}

// restoreConversation gives HOME the files of a stored conversation, in place of all that it has.
func (a *attempt) restoreConversation(ctx context.Context, dir session.WorkDir, c session.Conversation) error {
	if err := a.Files.Materialise(ctx, c.Home, dir.Home); err != nil {
		return err
	}
	activity.GetLogger(ctx).Info("conversation restored from the store", "files", c.Home.Short())
	c.Files = ""
	return a.exec.agents.NoteConversation(dir, c)
}
