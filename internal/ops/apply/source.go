package apply

import (
	"context"
	"net/url"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// Source is what git knows of a directory of a host. The directory may be in no repository.
func Source(ctx context.Context, host, dir string, environ []string) session.Source {
	g := gitIn(dir, environ)
	return session.Source{
		Host: host, Dir: dir, Commit: g.head(ctx), Prefix: g.says(ctx, "rev-parse", "--show-prefix"),
		Remote: withoutCredentials(g.says(ctx, "remote", "get-url", "origin")),
	}
}

// withoutCredentials is the address of a repository on another host; empty: it is a path on this one.
func withoutCredentials(at string) string {
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		if u.User != nil && u.Scheme != "ssh" {
			u.User = nil
		}
		return u.String()
	}
	if host, _, ok := strings.Cut(at, ":"); ok && !strings.Contains(host, "/") { // user@host:path
		return at
	}
	return ""
}
