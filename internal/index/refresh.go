package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// Refreshed is what a refresh has done.
type Refreshed struct {
	// Sessions is how many there are, Read how many were read, Changed and Removed how many
	// have a new sequence.
	Sessions, Read, Changed, Removed int
	// Skipped is how many sessions could not be read. The index has what it had of them, and
	// the next refresh tries again.
	Skipped int
	// Faults says what is wrong with them, and with documents that others can stand for; of
	// many, the first.
	Faults []error
}

const (
	// maxFaults bounds the faults that are kept.
	maxFaults = 100
	// batch is how many sessions are written in one transaction.
	batch = 200
)

// Refresh brings the index up to date with the sessions of a namespace by reading those that
// have changed. It is done by one goroutine of the process at a time.
func (x *Index) Refresh(ctx context.Context, namespace string) (Refreshed, error) {
	if err := spec.CheckSession(namespace); err != nil {
		return Refreshed{}, fmt.Errorf("namespace: %w", err)
	}
	x.refreshing.Lock()
	defer x.refreshing.Unlock()
	x.namespaces[namespace] = true
	db, gone := x.replaced()
	if gone {
		x.log.Info("the index was removed and is opened again")
		if err := x.reopen(ctx, db, nil); err != nil {
			return Refreshed{}, err
		}
	}
	done, err := x.refresh(ctx, namespace)
	if !damaged(err) || ctx.Err() != nil {
		return done, err
	}
	db, _ = x.replaced()
	if err := x.reopen(ctx, db, err); err != nil {
		return done, err
	}
	return x.refresh(ctx, namespace)
}

// refresh is as Refresh, with the database as it is.
func (x *Index) refresh(ctx context.Context, namespace string) (done Refreshed, err error) {
	var known map[string]seen
	if _, err = x.try(func(db *sql.DB) error { known, err = knownSessions(ctx, db, namespace); return err }); err != nil {
		return done, err
	}
	there, err := x.store.Changes(ctx, namespace)
	if err != nil {
		return done, err
	}
	done.Sessions = len(there)
	gone := maps.Clone(known)
	r := reading{store: x.store}
	stale := map[string]seen{}
	for _, s := range there {
		last, ok := known[s.Session] // a new session's records are looked at
		delete(gone, s.Session)
		now, err := r.look(session.Key{Namespace: namespace, Session: s.Session}, nanoseconds(s.At), last)
		if err != nil {
			return done, err
		}
		if !ok || last.again || now.modified != last.modified || now.records != last.records || !maps.Equal(now.journals, last.journals) {
			stale[s.Session] = now
		}
	}
	if len(gone) > 0 {
		if done.Removed, err = x.remove(ctx, namespace, gone); err != nil {
			return done, err
		}
	}
	if len(stale) > 0 {
		// Where the storage cannot be written, its clock cannot be read: it is not earlier
		// than the newest change.
		if r.now, err = x.store.Clock(); err != nil {
			r.now = newest(there)
		}
		err = x.readAll(ctx, r, namespace, stale, known, &done)
	}
	return done, err
}

func newest(changes []store.Changed) time.Time {
	var at time.Time
	for _, c := range changes {
		if c.At.After(at) {
			at = c.At
		}
	}
	return at
}

// readAll reads sessions and puts them into the index, some at a time.
func (x *Index) readAll(ctx context.Context, r reading, namespace string, stale, known map[string]seen, done *Refreshed) error {
	for names := range slices.Chunk(slices.Sorted(maps.Keys(stale)), batch) {
		entries, faults := make([]*entry, len(names)), make([]error, len(names))
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(max(2, runtime.GOMAXPROCS(0)))
		for i, name := range names {
			g.Go(func() error {
				e, damage, err := r.read(gctx, session.Key{Namespace: namespace, Session: name}, stale[name])
				if faults[i] = errors.Join(damage, err); err == nil {
					entries[i] = &e
				}
				return gctx.Err()
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for i, e := range entries {
			if faults[i] != nil && len(done.Faults) < maxFaults {
				done.Faults = append(done.Faults, faults[i])
			}
			if e == nil {
				done.Skipped++
			}
		}
		read := slices.DeleteFunc(entries, func(e *entry) bool { return e == nil })
		done.Read += len(read)
		changed, err := x.put(ctx, read, known)
		if err != nil {
			return err
		}
		done.Changed += changed
	}
	return nil
}

// knownSessions is what the sessions of a namespace looked like when they were read.
func knownSessions(ctx context.Context, db *sql.DB, namespace string) (map[string]seen, error) {
	known := map[string]seen{}
	err := each(ctx, db, "SELECT session, modified, records, journals, again FROM seen WHERE namespace = ?", []any{namespace}, func(row *values) error {
		name, s := row.text(), seen{modified: row.integer(), records: row.integer()}
		if journals := row.text(); journals != "" && json.Unmarshal([]byte(journals), &s.journals) != nil {
			return errValue
		}
		s.again = row.integer() != 0
		known[name] = s
		return nil
	})
	return known, err
}
