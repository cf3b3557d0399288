package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/launch"
	"github.com/maestro-hive/maestro/internal/sandbox/workdir"
	"github.com/maestro-hive/maestro/internal/store"
)

// storeOpener opens the store that a command's flags name.
type storeOpener struct {
	*target
	console *console
	now     func() time.Time
}

// storeDir is the state directory of this user; root continues as the directory's owner.
func (o *storeOpener) storeDir() (string, error) {
	if o.ownersDir != "" {
		return o.ownersDir, nil
	}
	dir, _, err := config.StateDir(o.stateDir, o.environ.get, false)
	if err != nil {
		return "", usagef("%w", err)
	}
	owners, err := config.BecomeOwner(dir)
	if err != nil {
		return "", usagef("%w", err)
	}
	if owners != nil {
		o.ownersDir, o.environ = dir, slices.Concat(o.environ, owners)
	}
	return dir, nil
}

// workerDir is the state directory of a server and a worker on this machine. A missing one is created. A note is printed
// if it is not the default directory.
func (o *storeOpener) workerDir() (string, error) {
	dir, note, err := config.WorkerStateDir(o.stateDir, o.environ.get, true)
	if err != nil {
		return "", usagef("%w", err)
	}
	if note != "" {
		o.console.printErr("%s", note)
	}
	return dir, nil
}

// stateDirectory is the directory of the store, if there is one; empty if none is given
// and the default does not exist.
func (o *storeOpener) stateDirectory() string {
	dir, _ := o.storeDir() // who opens the store gets the error
	return dir
}

// openStore opens the store.
func (o *storeOpener) openStore() (*store.Store, error) {
	return o.openStoreWith(store.Options{Clock: o.now})
}

func (o *storeOpener) openStoreWith(options store.Options) (*store.Store, error) {
	dir, err := o.storeDir()
	if err != nil {
		return nil, err
	}
	s, err := store.Open(dir, options)
	return s, storeError(err)
}

// workDirs are the directories on this host in which agents work: as their worker's user, or as that of run_as.
func workDirs(s *store.Store) (all []session.PrunableDirs) {
	for _, root := range []string{workdir.DefaultRoot(s.Dir()), workdir.SharedRoot(s.Dir())} {
		all = append(all, workdir.New(workdir.Options{Root: root}))
	}
	return all
}

// createStore opens the store in the directory that find finds, making it if there is none yet.
func (o *storeOpener) createStore(find func() (string, error)) (*store.Store, error) {
	dir, err := find()
	if err != nil {
		return nil, err
	}
	s, err := store.Create(dir, store.Options{Clock: o.now})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return s, nil
}

// findStore opens the store if there is one; nil without an error if there is
// none, for commands that do not need it.
func (o *storeOpener) findStore() (*store.Store, error) {
	s, err := o.openStore()
	if errors.Is(err, session.ErrNotFound) {
		return nil, nil
	}
	return s, err
}

// stored opens the store, and names a session that is in it.
func (o *storeOpener) stored(sessionID string) (*store.Store, session.Key, error) {
	return o.storedIn(o.openStore, sessionID)
}

func (o *storeOpener) storedIn(open func() (*store.Store, error), sessionID string) (*store.Store, session.Key, error) {
	key := session.Key{Session: sessionID}
	if err := spec.CheckSession(sessionID); err != nil {
		return nil, key, usagef("%w", err)
	}
	s, namespace, err := o.inNamespace(open)
	if err != nil {
		return nil, key, err
	}
	key.Namespace = namespace
	ctx := context.Background()
	known, err := s.State.HasSession(ctx, key)
	if err != nil {
		return nil, key, err
	}
	if !known {
		stored, _ := s.State.SessionNames(ctx, key.Namespace)
		return nil, key, o.sessionNotFound(sessionID, fmt.Sprintf("the store in %s (namespace %s)", s.Dir(), key.Namespace), stored)
	}
	return s, key, nil
}

// sessionNotFound is the error for a session that is not found, with a suggestion of those
// that exist.
func (o *storeOpener) sessionNotFound(sessionID, where string, known []string) error {
	hint := textfmt.DidYouMean(sessionID, slices.DeleteFunc(known, func(s string) bool { return s == sessionID })) // its directory may be empty
	if hint == "" {
		hint = fmt.Sprintf("; `%s` lists all sessions", o.commandLine("list"))
	}
	return usagef("session %q not found in %s%s", sessionID, where, hint)
}

// newest is a session's newest checkpoint that can be read. Damage is printed.
func (o *storeOpener) newest(ctx context.Context, s *store.Store, key session.Key) (store.StoredCheckpoint, error) {
	found, err := s.Newest(ctx, key)
	switch {
	case found.Name == "" && errors.Is(err, session.ErrNotFound):
		return found, failf("session %s has no readable checkpoint: %w", key.Session, err)
	case errors.Is(err, session.ErrCorrupt), errors.Is(err, session.ErrNotFound):
		o.console.printDamage(control.Damage{Damage: err.Error()})
		return found, nil
	}
	return found, err
}

// storedTeam is the team of a session's newest checkpoint. Damage is printed.
func (o *storeOpener) storedTeam(ctx context.Context, s *store.Store, key session.Key) (spec.Team, error) {
	newest, err := o.newest(ctx, s, key)
	if err != nil {
		return spec.Team{}, err
	}
	t, err := launch.TeamOf(ctx, s, newest)
	if err != nil {
		return t, failf("%w; give its file with --team", err)
	}
	return t, nil
}

// adminBase is what operations on the teams, tokens and hooks of the store work on.
func (o *storeOpener) adminBase() (*control.Base, error) {
	s, err := o.openStore()
	if err != nil {
		return nil, err
	}
	return &control.Base{Store: s, Audit: access.NewAudit(s.State, o.now), Now: o.now}, nil
}

// administer runs an operation on the teams, tokens or hooks of the store.
func administer[I, O any](ctx context.Context, o *storeOpener, operation httpapi.Operation[I, O], in I) (doc O, err error) {
	base, err := o.adminBase()
	if err != nil {
		return doc, err
	}
	return operation.Do(ctx, base, in)
}

// storeError adds the exit code to an error of a state directory.
func storeError(err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return &codeError{exitUsage, err}
	}
	return err
}

// inNamespace opens the store, as open does, and names the namespace of the sessions.
func (o *storeOpener) inNamespace(open func() (*store.Store, error)) (*store.Store, string, error) {
	s, err := open()
	if err != nil {
		return nil, "", err
	}
	namespace, err := o.namespace()
	return s, namespace, err
}
