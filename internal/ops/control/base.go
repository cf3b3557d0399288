package control

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/sessionstatus"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/workflows"
)

// Base has what all operations need. Each noun embeds it.
type Base struct {
	// Temporal is the connection; nil, or a function that returns nil, if Temporal cannot be
	// reached. Then operations use only the store's data.
	Temporal func() *temporalutil.Connection
	// Store has the sessions.
	Store *store.Store
	// Serves: the callers are on other hosts. Answers are bounded, and name no directory of this host.
	Serves bool
	// Namespace is the namespace of the sessions.
	Namespace string
	// Audit records who changes what; nil: changes are not recorded.
	Audit *access.Audit
	// Directories are the directories of this host from which sessions may start.
	Directories []Directory
	// Now returns the current time.
	Now func() time.Time

	// Examiner checks what sessions need, for [Health].
	Examiner Examiner

	// These are answers that callers share.
	examined shared[[]Finding]
	counted  shared[Size]
}

// Connected returns a fixed connection, for one command.
func Connected(conn *temporalutil.Connection) func() *temporalutil.Connection {
	return func() *temporalutil.Connection { return conn }
}

// conn is the connection; nil if there is none.
func (b *Base) conn() *temporalutil.Connection {
	if b.Temporal == nil {
		return nil
	}
	return b.Temporal()
}

// connected is the connection, or the error that there is none.
func (b *Base) connected() (*temporalutil.Connection, error) {
	if conn := b.conn(); conn != nil {
		return conn, nil
	}
	return nil, &Error{Problem{Kind: Unavailable, Reason: NoTemporal}, errors.New( //nolint:staticcheck // a name
		"Temporal cannot be reached")}
}

func (b *Base) key(sessionID string) session.Key {
	return session.Key{Namespace: b.Namespace, Session: sessionID}
}

// reader reads one session.
func (b *Base) reader(sessionID string) (*sessionstatus.Reader, error) {
	w := &sessionstatus.Reader{Conn: b.conn(), Namespace: b.Namespace, Store: b.Store, Session: sessionID, Now: b.Now}
	return w, invalid("session", spec.CheckSession(sessionID))
}

// asNotFound converts the error of a read of a session.
func (b *Base) asNotFound(ctx context.Context, sessionID string, err error) error {
	if errors.Is(err, sessionstatus.ErrUnknown) {
		return b.Unknown(ctx, sessionID)
	}
	if _, other := errors.AsType[*sessionstatus.OtherWorkflowError](err); other {
		return &Error{Problem{Kind: NotFound, Session: sessionID}, err}
	}
	return err
}

// may returns an error if the caller may not do something with a session. Every operation on a
// session begins with it or with change.
func (b *Base) may(ctx context.Context, p access.Permission, sessionID string) error {
	if access.Check(ctx, p, access.AllTeams) == nil { // the team does not matter
		return nil
	}
	return access.Hide(ctx, access.Check(ctx, p, b.teamName(ctx, sessionID)))
}

// change runs a change of a session if the caller may make it, and records it.
func (b *Base) change(ctx context.Context, p access.Permission, sessionID string, e access.Event,
	make func(context.Context) error,
) error {
	e.Session, e.Team = sessionID, b.teamName(ctx, sessionID)
	return access.Hide(ctx, b.Audit.Change(ctx, p, e, make))
}

// teamName is the team of a session; [access.AllTeams] if it is unknown.
func (b *Base) teamName(ctx context.Context, sessionID string) string {
	w, err := b.reader(sessionID)
	if err != nil {
		return access.AllTeams
	}
	if e, err := b.Store.State.Execution(ctx, w.Key()); err == nil && e.Team != "" {
		return e.Team
	}
	if w.Conn != nil {
		if info, err := w.Describe(ctx); err == nil {
			return cmp.Or(sessionstatus.Memo[string](info, workflows.MemoTeam), access.AllTeams)
		}
	}
	return access.AllTeams
}

// actor is the name of the caller, for records that others read.
func actor(ctx context.Context) string {
	a, _ := access.Of(ctx)
	return a.String()
}
