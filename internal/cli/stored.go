package cli

import (
	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/team"
)

// addNamespaceFlags gives a command that reads only the store what tells the
// namespace of a session.
func (a *app) addNamespaceFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&a.temporal.Namespace, "namespace", "n", "", `Temporal namespace of the session (default "default")`)
	flags.StringVar(&a.temporal.Profile, "profile", "", "profile in temporal.toml that names the namespace")
	flags.StringVar(&a.temporal.ConfigFile, "config-file", "", "temporal.toml to read instead of the usual one")
}

// namespace is the namespace that flags, environment and profile name.
func (a *app) namespace() (string, error) {
	options, err := a.temporal.ClientOptions(a.environ)
	return options.Namespace, err
}

// stored opens the store and names a session that is in it.
func (a *app) stored(session string) (*store.Store, team.SessionKey, error) {
	key := team.SessionKey{Session: session}
	if err := team.CheckSession(session); err != nil {
		return nil, key, usagef("%w", err)
	}
	var err error
	if key.Namespace, err = a.namespace(); err != nil {
		return nil, key, err
	}
	s, err := a.openStore()
	if err != nil {
		return nil, key, err
	}
	known, err := s.HasSession(key)
	if err != nil {
		return nil, key, err
	}
	if !known {
		return nil, key, usagef("the store in %s has no session %q (namespace %s); `maestro list` shows those that there are", s.Dir(), session, key.Namespace)
	}
	return s, key, nil
}
