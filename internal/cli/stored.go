package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// addStoreFlags gives a command the flags of one that reads or changes the store only: which
// namespace and store, and -o.
func (a *app) addStoreFlags(cmd *cobra.Command) {
	a.addNamespaceFlags(cmd)
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
}

// addNamespaceFlags gives a command that reads only the store what tells the
// namespace of a session.
func (a *app) addNamespaceFlags(cmd *cobra.Command) {
	cmdline.AddGroup(cmd.Flags(), temporalutil.FlagHeading, func(flags *pflag.FlagSet) {
		flags.StringVarP(&a.temporal.Namespace, "namespace", "n", "", `Temporal namespace of the session (default "default")`)
		flags.StringVar(&a.temporal.Profile, "profile", "", "profile in temporal.toml that names the namespace")
		flags.StringVar(&a.temporal.ConfigFile, "config-file", "", "temporal.toml to read instead of the usual one")
	})
}

// namespace is the namespace that flags, environment and profile name.
func (a *app) namespace() (string, error) {
	options, err := a.temporal.ClientOptions(a.environ)
	return options.Namespace, err
}

// stored opens the store to read it, and names a session that is in it.
func (a *app) stored(sessionID string) (*store.Store, session.Key, error) {
	return a.storedIn(a.openStore, sessionID)
}

// storedToWrite is like stored for a command that changes the store.
func (a *app) storedToWrite(sessionID string) (*store.Store, session.Key, error) {
	return a.storedIn(a.openStoreToWrite, sessionID)
}

func (a *app) storedIn(open func() (*store.Store, error), sessionID string) (*store.Store, session.Key, error) {
	key := session.Key{Session: sessionID}
	if err := spec.CheckSession(sessionID); err != nil {
		return nil, key, usagef("%w", err)
	}
	var err error
	if key.Namespace, err = a.namespace(); err != nil {
		return nil, key, err
	}
	s, err := open()
	if err != nil {
		return nil, key, err
	}
	known, err := s.HasSession(key)
	if err != nil {
		return nil, key, err
	}
	if !known {
		stored, _ := s.Sessions(context.Background(), key.Namespace)
		return nil, key, a.sessionNotFound(sessionID, fmt.Sprintf("the store in %s (namespace %s)", s.Dir(), key.Namespace), ids(stored))
	}
	return s, key, nil
}

// sessionNotFound is the error for a session that is not found, with a suggestion of those
// that exist.
func (a *app) sessionNotFound(sessionID, where string, known []string) error {
	hint := textfmt.DidYouMean(sessionID, known)
	if hint == "" {
		hint = fmt.Sprintf("; `%s` lists all sessions", a.commandLine("list"))
	}
	return usagef("session %q not found in %s%s", sessionID, where, hint)
}

// ids are the sessions that keys name.
func ids(keys []session.Key) (out []string) {
	for _, key := range keys {
		out = append(out, key.Session)
	}
	return out
}
