package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
)

// Refreshed is the result of a refresh.
type Refreshed struct {
	// Sessions is the number of sessions, Read the number of those that were read, Changed and
	// Removed the numbers of those with a new sequence.
	Sessions, Read, Changed, Removed int
	// Position is the position of the last change after the refresh, including those that other
	// processes found.
	Position Position
	// Skipped is the number of sessions that could not be read. Their previous data stays in the
	// index, and the next refresh tries again.
	Skipped int
	// Faults describe the errors of these sessions, and of damaged documents that could be replaced
	// by others; if there are many, the first.
	Faults []error
}

// addFault adds a fault; nil: there is none.
func (r *Refreshed) addFault(err error) {
	if err != nil && len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, err)
	}
}

const (
	// maxFaults limits the faults that are returned.
	maxFaults = 100
	// batch is how many sessions are written in one transaction.
	batch = 200
)

// lastRefresh is a successful refresh: its number in the process, and its result.
type lastRefresh struct {
	number int64
	done   Refreshed
}

// Refresh updates the index with the sessions of a namespace by reading those that have changed.
// One goroutine of the process does it at a time; those that wait share the next one.
func (x *Index) Refresh(ctx context.Context, namespace string) (Refreshed, error) {
	if err := spec.CheckSession(namespace); err != nil {
		return Refreshed{}, fmt.Errorf("namespace: %w", err)
	}
	before := x.begun.Load()
	x.refreshing.Lock()
	defer x.refreshing.Unlock()
	if last := x.last[namespace]; last.number > before { // it has begun since
		return last.done, nil
	}
	number := x.begun.Add(1)
	done, err := x.refreshOrReopen(ctx, namespace)
	if err == nil {
		x.last[namespace] = lastRefresh{number, done}
	}
	return done, err
}

// refreshOrReopen is Refresh. It rebuilds a file that was removed or is damaged.
func (x *Index) refreshOrReopen(ctx context.Context, namespace string) (Refreshed, error) {
	if db, gone := x.replaced(); gone {
		x.log.Info("the index was removed and is opened again")
		if err := x.rebuild(ctx, db, nil); err != nil {
			return Refreshed{}, err
		}
	}
	done, err := x.refresh(ctx, namespace)
	if !damaged(err) || ctx.Err() != nil {
		return done, err
	}
	db, _ := x.replaced()
	if err := x.rebuild(ctx, db, err); err != nil {
		return done, err
	}
	return x.refresh(ctx, namespace)
}

// refresh is Refresh, without a check of the database.
func (x *Index) refresh(ctx context.Context, namespace string) (done Refreshed, err error) {
	var known map[string]seen
	if _, err = x.try(func(db *sql.DB) error { known, err = knownSessions(ctx, db, namespace); return err }); err != nil {
		return done, err
	}
	there, err := x.store.Changes(ctx, namespace)
	if err != nil {
		return done, err
	}
	changes, err := x.store.State.Changes(ctx, namespace)
	if err != nil {
		return done, err
	}
	there = withCosts(there, changes)
	done.Sessions = len(there)
	gone := maps.Clone(known)
	r := reading{store: x.store}
	stale := map[string]seen{}
	for _, s := range there {
		last, ok := known[s.Session] // a new session's records are looked at
		delete(gone, s.Session)
		now, err := r.look(session.Key{Namespace: namespace, Session: s.Session}, nanoseconds(s.At), changes[s.Session], last)
		if err != nil && (damaged(err) || ctx.Err() != nil) {
			return done, err
		}
		if err != nil {
			done.Skipped++
			done.addFault(fmt.Errorf("session %s: %w", s.Session, err))
			continue
		}
		if !ok || last.again || now.modified != last.modified || now.records != last.records || now.change != last.change {
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
		if err = x.readAll(ctx, r, namespace, stale, known, &done); err != nil {
			return done, err
		}
	}
	_, err = x.try(func(db *sql.DB) (err error) { done.Position, err = position(ctx, db); return err })
	return done, err
}

// withCosts adds the sessions that have costs but no documents any more.
func withCosts(there []store.Changed, changes map[string]int64) []store.Changed {
	has := map[string]bool{}
	for _, s := range there {
		has[s.Session] = true
	}
	for name := range changes {
		if !has[name] {
			there = append(there, store.Changed{Session: name})
		}
	}
	return there
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

// readAll reads sessions and writes them to the index, in batches.
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
			done.addFault(faults[i])
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

// knownSessions is the state of the documents of a namespace's sessions when they were last read.
// It is read as one text, which takes a third of the time of separate rows.
func knownSessions(ctx context.Context, db *sql.DB, namespace string) (map[string]seen, error) {
	known := map[string]seen{}
	const query = `SELECT count(*), ifnull(group_concat(session || ' ' || modified || ' ' || records || ' ' || again || ' ' || change, char(10)), '')
		FROM seen WHERE namespace = ?`
	err := each(ctx, db, query, []any{namespace}, func(row *values) error {
		count, text := row.integer(), row.text()
		if count == 0 {
			return nil
		}
		known = make(map[string]seen, count)
		for line := range strings.Lines(text) {
			name, s, err := parseSeen(strings.TrimSuffix(line, "\n"))
			if err != nil {
				return err
			}
			known[name] = s
		}
		return nil
	})
	return known, err
}

// parseSeen reads a line of knownSessions.
func parseSeen(line string) (name string, s seen, err error) {
	name, rest, _ := strings.Cut(line, " ")
	modified, rest, _ := strings.Cut(rest, " ")
	records, rest, _ := strings.Cut(rest, " ")
	again, change, ok := strings.Cut(rest, " ")
	var bad, worse, worst error
	s.modified, bad = strconv.ParseInt(modified, 10, 64)
	s.records, worse = strconv.ParseInt(records, 10, 64)
	s.change, worst = strconv.ParseInt(change, 10, 64)
	if !ok || errors.Join(bad, worse, worst) != nil {
		return "", s, errValue
	}
	s.again = again != "0"
	return name, s, nil
}
