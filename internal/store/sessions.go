package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	executionFile = "execution_state.json"
	// assignmentsDir contains the documents of assignments.
	assignmentsDir = "assignments"
)

// sessions stores the status document of each session.
type sessions struct {
	*documents
	// written caches status documents that this process has written, by digest.
	written *decodedCache[session.Execution]
}

// SessionDir returns the directory of a session's documents, for messages.
func (s sessions) SessionDir(key session.Key) (string, error) {
	doc, err := documentKey(key)
	return s.fileOf(doc), err
}

// fileOf returns the path of a document, for messages.
func (s *documents) fileOf(key string) string { return path.Join(s.dir, key) }

// documentKey returns the storage key of a session's document.
func documentKey(key session.Key, names ...string) (string, error) {
	if err := key.Check(); err != nil {
		return "", err
	}
	return path.Join(append([]string{"sessions", key.Namespace, key.Session}, names...)...), nil
}

// Namespaces lists the namespaces that have sessions, sorted.
func (s sessions) Namespaces(ctx context.Context) ([]string, error) {
	return s.subdirs(ctx, "sessions")
}

// Sessions lists the sessions of a namespace, sorted by name.
func (s sessions) Sessions(ctx context.Context, namespace string) ([]session.Key, error) {
	if err := spec.CheckSession(namespace); err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	names, err := s.subdirs(ctx, "sessions/"+namespace)
	if err != nil {
		return nil, err
	}
	keys := make([]session.Key, len(names))
	for i, name := range names {
		keys[i] = session.Key{Namespace: namespace, Session: name}
	}
	return keys, nil
}

// Changed is the time when a document of a session was last created, replaced or removed, by the
// storage's clock. Documents of its assignments do not count.
type Changed struct {
	Session string
	At      time.Time
}

// Changes returns the last change of each session of a namespace, unordered.
func (s sessions) Changes(ctx context.Context, namespace string) ([]Changed, error) {
	if err := errors.Join(spec.CheckSession(namespace), ctx.Err()); err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	entries, err := s.docs.Below("sessions/" + namespace)
	if err != nil {
		return nil, fmt.Errorf("list the sessions: %w", err)
	}
	out := make([]Changed, 0, len(entries))
	for _, e := range entries {
		if spec.CheckSession(e.Name) == nil {
			out = append(out, Changed{e.Name, e.Modified})
		}
	}
	return out, nil
}

// RecordsChanged returns when a record of a session's assignments was last created, replaced or
// removed; zero: never.
func (s sessions) RecordsChanged(key session.Key) (time.Time, error) {
	return s.modified(documentKey(key, assignmentsDir))
}

// modified returns when a document was last written; zero: there is none.
func (s *documents) modified(doc string, err error) (time.Time, error) {
	if err != nil {
		return time.Time{}, err
	}
	at, err := s.docs.ModTime(doc)
	if errors.Is(err, storage.ErrNotFound) {
		return time.Time{}, nil
	}
	return at, err
}

// HasSession reports whether the store has a session.
func (s sessions) HasSession(key session.Key) (bool, error) {
	doc, err := documentKey(key)
	if err != nil {
		return false, err
	}
	names, err := s.docs.List(doc)
	return len(names) > 0, err
}

// subdirs lists the names below a key that have others below them and are valid session names.
func (s *documents) subdirs(ctx context.Context, key string) ([]string, error) {
	names, err := s.list(ctx, key)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, name := range names {
		if name, ok := strings.CutSuffix(name, "/"); ok && spec.CheckSession(name) == nil {
			out = append(out, name)
		}
	}
	return out, nil
}

// list returns the names below a key.
func (s *documents) list(ctx context.Context, key string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	names, err := s.docs.List(key)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", key, err)
	}
	return names, nil
}

// Executions reads execution_state.json of every session of a namespace, sorted by the last
// change, newest first. Unreadable ones are skipped, and their errors are joined.
func (s sessions) Executions(ctx context.Context, namespace string) ([]session.Execution, error) {
	keys, err := s.Sessions(ctx, namespace)
	if err != nil {
		return nil, err
	}
	out := make([]session.Execution, 0, len(keys))
	var faults []error
	for _, key := range keys {
		e, err := s.Execution(key)
		switch {
		case err == nil:
			out = append(out, e)
		case !errors.Is(err, session.ErrNotFound):
			faults = append(faults, err)
		}
	}
	slices.SortStableFunc(out, func(a, b session.Execution) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(a.Session, b.Session))
	})
	return out, errors.Join(faults...)
}

// jsonFiles returns the keys of the documents below a key whose names have the prefix and end in
// .json, by the part in between.
func (s *documents) jsonFiles(ctx context.Context, key, prefix string) (map[string]string, error) {
	names, err := s.list(ctx, key)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, file := range names {
		name, ok := strings.CutPrefix(file, prefix)
		if !ok {
			continue
		}
		if name, ok = strings.CutSuffix(name, ".json"); ok {
			out[name] = key + "/" + file
		}
	}
	return out, nil
}

// assignments lists a session's assignments that have a file, sorted by phase and persona. of
// returns the assignment of a file name.
func (s sessions) assignments(ctx context.Context, key session.Key, of func(file string) (spec.AssignmentID, bool)) ([]spec.AssignmentID, error) {
	dir, err := documentKey(key, assignmentsDir)
	if err != nil {
		return nil, err
	}
	names, err := s.list(ctx, dir)
	if err != nil {
		return nil, err
	}
	var out []spec.AssignmentID
	for _, name := range names {
		if id, ok := of(name); ok {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b spec.AssignmentID) int {
		return cmp.Or(strings.Compare(a.Phase, b.Phase), strings.Compare(a.Persona, b.Persona))
	})
	return out, nil
}
