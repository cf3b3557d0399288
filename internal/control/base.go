package control

import (
	"errors"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
)

// Base is what all operations need. Each noun embeds it.
type Base struct {
	// Temporal is the connection; nil, or a function that returns nil, where Temporal cannot
	// be reached. Then operations know only what the store has.
	Temporal func() *temporalutil.Connection
	// Store is nil where none is at hand. Then operations know only what Temporal has.
	Store *store.Store
	// Namespace is that of the sessions.
	Namespace string
	// Now tells the time.
	Now func() time.Time
}

// Connected is Temporal for the whole of a command.
func Connected(conn *temporalutil.Connection) func() *temporalutil.Connection {
	return func() *temporalutil.Connection { return conn }
}

// conn is the connection; nil where there is none.
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
	return nil, unavailablef("Temporal cannot be reached")
}

// stored is the store, or the error that there is none.
func (b *Base) stored() (*store.Store, error) {
	if b.Store != nil {
		return b.Store, nil
	}
	return nil, unavailablef("no store is available here")
}

func (b *Base) key(sessionID string) session.Key {
	return session.Key{Namespace: b.Namespace, Session: sessionID}
}

// watcher looks at one session.
func (b *Base) watcher(sessionID string) (*sessionstatus.Watcher, error) {
	if err := spec.CheckSession(sessionID); err != nil {
		return nil, &Error{Kind: Invalid, Field: "session", err: err}
	}
	return &sessionstatus.Watcher{Conn: b.conn(), Namespace: b.Namespace, Store: b.Store, Session: sessionID, Now: b.Now}, nil
}

// looked is an error of a look at a session.
func looked(sessionID string, err error) error {
	var other *sessionstatus.OtherWorkflowError
	if errors.Is(err, sessionstatus.ErrUnknown) || errors.As(err, &other) {
		return &Error{Kind: NotFound, Session: sessionID, err: err}
	}
	return err
}
