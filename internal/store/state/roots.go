package state

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// RootKind says how to find what a root reaches.
type RootKind int

// The kinds of roots.
const (
	// RootBlob reaches nothing else.
	RootBlob RootKind = iota
	// RootTree is a manifest, and RootDelta a delta.
	RootTree
	RootDelta
	RootCheckpoint
	// RootText is a text with digests. It is not a blob itself.
	RootText
)

// Root is content that a row names.
type Root struct {
	session.Key
	Kind RootKind
	// Text is the digest; for a RootText, the text.
	Text string
	// By names the row in messages.
	By         string
	transcript bool
}

// rootColumn is a column that names content.
type rootColumn struct {
	table, column string
	kind          RootKind
	// what names the content in messages.
	what string
	// transcript: an export without transcripts leaves it out.
	transcript bool
	// where limits the rows.
	where string
}

// closedStates are the states of sessions that have ended, as [session.State.Closed] has them.
const closedStates = `'completed', 'failed', 'cancelled'`

// openSession is the condition that the status of a row's session is none of a list.
const openSession = `exists (select 1 from sessions s where s.namespace = r.namespace and s.session = r.session and s.status not in (%s))`

// rootColumns are all columns that name content. What they and the trees below them do not reach is deleted.
var rootColumns = []rootColumn{
	{table: "sessions", column: "workspace", kind: RootTree, what: "the workspace"},
	{table: "runs", column: "team_digest", kind: RootBlob, what: "the team of a run"},
	{table: "runs", column: "selection", kind: RootText, what: "the files that a run was started with"},
	{
		table: "runs", column: "base", kind: RootCheckpoint, what: "a run",
		where: fmt.Sprintf(openSession, closedStates) +
			` and r.run = (select max(n.run) from runs n where n.namespace = r.namespace and n.session = r.session)`,
	},
	{table: "rounds", column: "basis_input", kind: RootTree, what: "the input of a round"},
	{table: "rounds", column: "input", kind: RootTree, what: "the input of a round"},
	{table: "rounds", column: "delta", kind: RootDelta, what: "the work of a round"},
	{table: "rounds", column: "output", kind: RootTree, what: "the work of a round"},
	{table: "rounds", column: "outage", kind: RootText, what: "the files of a round that waits"},
	{table: "attempts", column: "files", kind: RootTree, what: "the files of an attempt"},
	{table: "attempts", column: "diff", kind: RootBlob, what: "the diff of an attempt", transcript: true},
	{table: "attempts", column: "transcript", kind: RootBlob, what: "a transcript", transcript: true},
	{
		table: "conversations", column: "home", kind: RootTree, what: "a conversation", transcript: true,
		where: fmt.Sprintf(openSession, `'completed'`),
	},
	{
		table: "conversations", column: "files", kind: RootTree, what: "a conversation", transcript: true,
		where: fmt.Sprintf(openSession, `'completed'`),
	},
	{table: "checkpoints", column: "digest", kind: RootCheckpoint, what: "a checkpoint", where: "pruned_at is null"},
	{table: "calls", column: "answer", kind: RootBlob, what: "the answer to a call", transcript: true},
	{table: "calls", column: "tools", kind: RootBlob, what: "the tools of a call", transcript: true},
	{table: "answers", column: "files", kind: RootTree, what: "the files of an answer"},
}

// sharedColumns are those of tables that do not belong to sessions.
var sharedColumns = []rootColumn{
	{table: "teams", column: "digest", kind: RootBlob, what: "registered team "},
	{table: "teams", column: "file", kind: RootBlob, what: "the file of registered team "},
	{table: "uploads", column: "digest", kind: RootTree, what: "an upload for team "},
}

// Roots lists what the rows of a session name; of all sessions, teams and uploads if the key is zero.
func (d *DB) Roots(ctx context.Context, s session.Key) (roots []Root, err error) {
	err = d.Read(ctx, func(t *Tx) error {
		if roots, err = t.roots(s); err != nil || s != (session.Key{}) {
			return err
		}
		for _, c := range sharedColumns {
			if err := t.each(func(r *sql.Rows) error {
				root := Root{Kind: c.kind}
				err := r.Scan(&root.Text, &root.By)
				root.By = c.what + root.By
				roots = append(roots, root)
				return err
			}, `select `+c.column+`, team from `+c.table); err != nil {
				return err
			}
		}
		return nil
	})
	return roots, err
}

func (t *Tx) roots(s session.Key) (roots []Root, err error) {
	for _, c := range rootColumns {
		query, args := `select distinct r.namespace, r.session, r.`+c.column+` from `+c.table+` r where r.`+c.column+` <> ''`,
			[]any{}
		if c.where != "" {
			query += ` and ` + c.where
		}
		if s != (session.Key{}) {
			query, args = query+` and r.namespace = $1 and r.session = $2`, []any{s.Namespace, s.Session}
		}
		if err := t.each(func(r *sql.Rows) error {
			root := Root{Kind: c.kind, transcript: c.transcript}
			err := r.Scan(&root.Namespace, &root.Session, &root.Text)
			root.By = c.what + " of session " + root.Session
			roots = append(roots, root)
			return err
		}, query, args...); err != nil {
			return nil, err
		}
	}
	return roots, nil
}

// Digest is the digest of a root that is a blob.
func (r Root) Digest() spec.Digest { return spec.Digest(r.Text) }
