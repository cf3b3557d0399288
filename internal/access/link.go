package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/storage"
)

const (
	linksKey  = "access/links.json"
	serverKey = "access/server.json"

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
	URL  string `json:"url"`
	Host string `json:"host"`
}

// Announce notes in the store at which address its server can be called from a machine, for
// [NewLink].
func Announce(docs storage.Storage, host, url string) error {
	data, err := json.Marshal(announcement{URL: url, Host: host})
	if err != nil {
		return err
	}
	err = storage.Update(docs, serverKey, storage.UntilPowerLoss, func() ([]byte, storage.Version, error) {
		_, version, err := docs.Read(serverKey)
		if errors.Is(err, storage.ErrNotFound) {
			err = nil
		}
		return data, version, err
	})
	if err != nil {
		return fmt.Errorf("note the server's address: %w", err)
	}
	return nil
}

// ServedAt is the address of the server that was announced last, without a slash at its end;
// empty: none was, or nobody knows.
func ServedAt(docs storage.Storage) string {
	var server announcement
	data, _, err := docs.Read(serverKey)
	if err != nil || json.Unmarshal(data, &server) != nil {
		return ""
	}
	return strings.TrimRight(server.URL, "/")
}

// NewLink returns a link that signs a local user in once, with the role admin, to the server
// that was announced last.
func NewLink(ctx context.Context, docs storage.Storage, audit *Audit, host, user string, now func() time.Time) (string, error) {
	data, _, err := docs.Read(serverKey)
	if errors.Is(err, storage.ErrNotFound) {
		return "", errors.New("no server has run for this store; start one with `maestro serve`")
	}
	var server announcement
	if err == nil {
		err = json.Unmarshal(data, &server)
	}
	if err != nil {
		return "", fmt.Errorf("read the server's address: %w", err)
	}
	if server.Host != host {
		return "", fmt.Errorf("the server of this store was started on host %s; create the link there", server.Host)
	}
	return newLinks(docs, audit, now).create(ctx, server.URL, user)
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
