package store

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/core/secrets"
)

// The variables that say where a store is that several hosts share.
const (
	DatabaseVariable = "MAESTRO_STORE"
	ContentVariable  = "MAESTRO_CONTENT"
)

// Location is where a store is that several hosts may share. Each host has a directory of its own beside it. The zero
// Location is the directory alone.
type Location struct {
	// Database is the URL of a PostgreSQL database; empty: a SQLite file in the directory.
	Database string
	// Content is the URL of a bucket; empty: the directory.
	Content string
}

// AddFlags adds the flags that set a location.
func (l *Location) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.Database, "store", "", "`URL` of the PostgreSQL database with the state, like postgres://host/maestro "+
		"(default $MAESTRO_STORE, else a file in the state directory)")
	flags.StringVar(&l.Content, "content", "", "`URL` of the bucket with the content, like s3://bucket/maestro "+
		"(default $MAESTRO_CONTENT, else the state directory)")
}

// OrFrom is the location that the flags have set, and else the environment.
func (l Location) OrFrom(env func(string) string) (Location, error) {
	database, err := urlOf("--store", l.Database, DatabaseVariable, env, "postgres", "postgresql")
	if err != nil {
		return l, err
	}
	content, err := urlOf("--content", l.Content, ContentVariable, env, "s3", "gs", "azblob", "file")
	return Location{database, content}, err
}

// Environ are the variables of a program that uses the same store.
func (l Location) Environ() []string {
	return []string{DatabaseVariable + "=" + l.Database, ContentVariable + "=" + l.Content}
}

// Secrets is the password of the database.
func (l Location) Secrets() (all []secrets.Secret) {
	if u, err := url.Parse(l.Database); err == nil {
		if password, ok := u.User.Password(); ok {
			all = append(all, secrets.Secret{Name: "the password in " + DatabaseVariable, Value: password})
		}
	}
	return all
}

// Printable is the location without a password, for printed commands.
func (l Location) Printable() Location {
	if u, err := url.Parse(l.Database); err == nil && u.User != nil {
		u.User = url.User(u.User.Username())
		l.Database = u.String()
	}
	return l
}

func urlOf(flag, given, variable string, env func(string) string, schemes ...string) (string, error) {
	by, value := flag, given
	if value == "" {
		by, value = variable, env(variable)
	}
	scheme, _, ok := strings.Cut(value, "://")
	if value == "" || ok && slices.Contains(schemes, scheme) {
		return value, nil
	}
	return "", fmt.Errorf("%s does not begin with %s://", by, strings.Join(schemes, "://, or "))
}
