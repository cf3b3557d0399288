package apply

import (
	"context"
	"net/url"
	"strings"
)

// Origin is the address that the repository of a directory was cloned from, without credentials; empty: there is none.
func Origin(ctx context.Context, dir string, environ []string) string {
	at := gitIn(dir, environ).says(ctx, "remote", "get-url", "origin")
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		if u.User != nil && u.Scheme != "ssh" {
			u.User = nil
		}
		return u.String()
	}
	if host, _, ok := strings.Cut(at, ":"); ok && !strings.Contains(host, "/") { // user@host:path
		return at
	}
	return "" // a path on this host
}
