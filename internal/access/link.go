package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	linksKey   = "access/links.json"
	serversKey = "access/servers.json"

	// linkLifetime is for how long a one-time link is good.
	linkLifetime = 10 * time.Minute
)

// link is a one-time link, known by the hash of its code. Only who can write the store's files
// can make one.
type link struct {
	// ID tells it from other links in records, and does not sign in.
	ID string `json:"id"`
	// Name is the user who made it.
	Name    string    `json:"name"`
	Expires time.Time `json:"expires"`
}

// announcement says at which address a server of the store can be called.
type announcement struct {
	Host string `json:"host"`
	// Public: the address is one that the server was given, and not that of its listener.
	Public bool `json:"public,omitempty"`
	// Since is when the server started, and Seen when it was last seen to run.
	Since time.Time `json:"since"`
	Seen  time.Time `json:"seen"`
}

// An announcement is good for announcedFor after it was made: servers repeat theirs every
// [AnnouncePause], and withdraw it when they end.
const (
	AnnouncePause = 30 * time.Second
	announcedFor  = 4 * AnnouncePause
)

// Announcements are the addresses of the servers that run for a store.
type Announcements struct {
	known *register[announcement] // by address
	now   func() time.Time
}

// NewAnnouncements returns the announcements in a store's storage.
func NewAnnouncements(docs storage.Storage, now func() time.Time) Announcements {
	return Announcements{newRegister[announcement](docs, serversKey, now), now}
}

// Announce notes at which address a server can be called, and on which host it runs. public: the
// address is one that it was given.
func (a Announcements) Announce(host, address string, public bool) error {
	err := a.known.change(func(all map[string]announcement) error {
		now := a.now().UTC()
		maps.DeleteFunc(all, func(_ string, one announcement) bool { return !one.isLive(now) })
		one := announcement{Host: host, Public: public, Since: now, Seen: now}
		if before, ok := all[address]; ok {
			one.Since = before.Since
		}
		all[address] = one
		return nil
	})
	if err != nil {
		return fmt.Errorf("note the server's address: %w", err)
	}
	return nil
}

// Withdraw removes the announcement of an address.
func (a Announcements) Withdraw(address string) error {
	return a.known.change(func(all map[string]announcement) error {
		delete(all, address)
		return nil
	})
}

func (a announcement) isLive(now time.Time) bool { return now.Sub(a.Seen) < announcedFor }

// preferred is the address for links, without a slash at its end: of the servers that run, on a host if
// one is named, those with a public address come first, then those that started first. ok is false if
// there is none.
func (a Announcements) preferred(host string) (address string, ok bool, err error) {
	all, _, err := a.known.load()
	if err != nil {
		return "", false, err
	}
	now := a.now()
	var best announcement
	for _, one := range slices.Sorted(maps.Keys(all)) {
		b := all[one]
		if !b.isLive(now) || host != "" && b.Host != host {
			continue
		}
		if !ok || b.Public && !best.Public || b.Public == best.Public && b.Since.Before(best.Since) {
			address, best, ok = one, b, true
		}
	}
	return strings.TrimRight(address, "/"), ok, nil
}

// ServedAt is the address of the store's server for links to its pages, without a slash at its end;
// empty: none runs, or nobody knows.
func ServedAt(docs storage.Storage, now func() time.Time) string {
	address, _, err := NewAnnouncements(docs, now).preferred("")
	if err != nil {
		return ""
	}
	return address
}

// NewLink returns a link that signs a local user in once, with the role admin, to a server that runs
// on this host.
func NewLink(ctx context.Context, docs storage.Storage, audit *Audit, host, user string, now func() time.Time) (string, error) {
	servers := NewAnnouncements(docs, now)
	address, here, err := servers.preferred(host)
	if err != nil {
		return "", err
	}
	if !here {
		elsewhere, runs, err := servers.preferred("")
		if err != nil || !runs {
			return "", errors.Join(errors.New("no server runs for this store; start one with `maestro serve`"), err)
		}
		return "", fmt.Errorf("no server of this store runs on host %s; create the link on the host of %s", host, elsewhere)
	}
	return newLinks(docs, audit, now).create(ctx, address, user)
}

// links are the one-time links that were made and not used.
type links struct {
	open  *register[link]
	audit *Audit
	now   func() time.Time
}

func newLinks(docs storage.Storage, audit *Audit, now func() time.Time) links {
	return links{newRegister[link](docs, linksKey, now), audit, now}
}

func (l links) create(ctx context.Context, base, user string) (string, error) {
	now, code, id := l.now().UTC(), newSecret(), newID()
	err := l.audit.do(With(ctx, Local(user)), Event{Action: "link.create", Subject: id}, func(context.Context) error {
		return l.open.change(func(all map[string]link) error {
			maps.DeleteFunc(all, func(_ string, l link) bool { return !now.Before(l.Expires) })
			all[hashOf(code)] = link{ID: id, Name: user, Expires: now.Add(linkLifetime)}
			return nil
		})
	})
	if err != nil {
		return "", fmt.Errorf("create a one-time link: %w", err)
	}
	return strings.TrimSuffix(base, "/") + "/login?" + url.Values{"code": {code}}.Encode(), nil
}

// errNoLink says that a code is unknown, used or too old.
var errNoLink = errors.New("the link was used already, or is older than 10 minutes")

// use takes a code and returns its link, or errNoLink.
func (l links) use(code string) (found link, err error) {
	hash, now := hashOf(code), l.now()
	// Whoever guesses makes nothing be written.
	if all, _, err := l.open.load(); err != nil || all[hash].Name == "" {
		if err == nil {
			err = errNoLink
		}
		return link{}, err
	}
	err = l.open.change(func(all map[string]link) error {
		found = all[hash]
		if !now.Before(found.Expires) {
			return errNoLink
		}
		delete(all, hash)
		return nil
	})
	return found, err
}
