package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/store"
)

// The variables that say where a store is that several hosts share.
const (
	StoreEnv   = "MAESTRO_STORE"
	ContentEnv = "MAESTRO_CONTENT"
)

// StoreFlags are the flags that say where a store is besides its directory.
type StoreFlags struct{ database, content string }

// Add adds the flags.
func (f *StoreFlags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.database, "store", "", "`URL` of the PostgreSQL database with the state, like postgres://host/maestro "+
		"(default $MAESTRO_STORE, else a file in the state directory)")
	flags.StringVar(&f.content, "content", "", "`URL` of the bucket with the content, like s3://bucket/maestro "+
		"(default $MAESTRO_CONTENT, else the state directory)")
}

// Location is the location that flags and environment name.
func (f *StoreFlags) Location(env func(string) string) (l store.Location, err error) {
	if l.Database, err = locationURL("--store", StoreEnv, f.database, env, "postgres", "postgresql"); err != nil {
		return l, err
	}
	l.Content, err = locationURL("--content", ContentEnv, f.content, env, "s3", "gs", "azblob", "file")
	return l, err
}

// Named are the flags that were given, without the password, for printed commands.
func (f *StoreFlags) Named() (database, content string) {
	u, err := url.Parse(f.database)
	if err != nil || u.User == nil {
		return f.database, f.content
	}
	u.User = url.User(u.User.Username())
	return u.String(), f.content
}

func locationURL(flag, variable, given string, env func(string) string, schemes ...string) (string, error) {
	by, value := flag, given
	if value == "" {
		by, value = variable, env(variable)
	}
	scheme, _, ok := strings.Cut(value, "://")
	if value == "" || ok && slices.Contains(schemes, scheme) {
		return value, nil
	}
	return "", fmt.Errorf("%s: %q is not the beginning of a URL that is known here; write %s://...", by,
		cmp.Or(scheme, "://"), strings.Join(schemes, "://... or "))
}
