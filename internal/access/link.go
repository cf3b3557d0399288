package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/store/state"
)

// linkPath is where the form of a one-time link is sent.
const linkPath = "/login/link"

// linkLifetime is for how long a one-time link is good.
const linkLifetime = 10 * time.Minute

// An announcement is good for announcedFor after it was made: servers repeat theirs every
// [AnnouncePause], and withdraw it when they end.
const (
	AnnouncePause = 30 * time.Second
	announcedFor  = 4 * AnnouncePause
)

// Announce notes at which address a server can be called, and on which host it runs. public: the
// address is one that it was given, and not that of its listener.
func Announce(ctx context.Context, db *state.DB, host, address string, public bool) error {
	if err := db.AnnounceServer(ctx, address, host, public, announcedFor); err != nil {
		return fmt.Errorf("note the server's address: %w", err)
	}
	return nil
}

// servedOn is the address for links of the servers that run, on a host if one is named, without a slash
// at its end; empty: there is none.
func servedOn(ctx context.Context, db *state.DB, host string) (string, error) {
	address, err := db.Server(ctx, host, announcedFor)
	if errors.Is(err, state.ErrNotFound) {
		return "", nil
	}
	return strings.TrimRight(address, "/"), err
}

// ServedAt is the address of the server for links to its pages, without a slash at its end; empty: none
// runs, or nobody knows.
func ServedAt(ctx context.Context, db *state.DB) string {
	address, _ := servedOn(ctx, db, "")
	return address
}

// NewLink returns a link of a local user that signs in once, to a server that runs on this host: somebody with the role admin,
// or a named person with roles, who has no account: an account of that name ends its links.
func NewLink(ctx context.Context, db *state.DB, audit *Audit, host, user, as string, roles Roles) (string, error) {
	address, err := servedOn(ctx, db, host)
	if err != nil {
		return "", err
	}
	if as != "" {
		if _, err := db.PersonNamed(ctx, as); !errors.Is(err, state.ErrNotFound) {
			return "", cmp.Or(err, fmt.Errorf("%s has an account, and signs in by it; `maestro people reset %[1]s` recovers it", as))
		}
	}
	if address != "" {
		return createLink(ctx, db, audit, address, state.Link{Owner: user, Name: as, Roles: roles})
	}
	elsewhere, err := servedOn(ctx, db, "")
	if err != nil || elsewhere == "" {
		return "", errors.Join(errors.New("no server runs for this store; start one with `maestro serve`"), err)
	}
	return "", fmt.Errorf("no server of this store runs on host %s; create the link on the host of %s", host, elsewhere)
}

// createLink makes a one-time link, which the database has under the hash of its code. Only who can write the database can
// make one.
func createLink(ctx context.Context, db *state.DB, audit *Audit, base string, link state.Link) (string, error) {
	code := newSecret()
	link.Hash, link.ID = hashOf(code), newID()
	event := Event{Action: "link.create", Subject: link.ID}
	if link.Name == "" {
		link.Roles = Roles{AllTeams: {RoleAdmin}}
	} else {
		event.Detail = link.Name + ": " + grants(link.Roles, nil)
	}
	err := audit.do(With(ctx, Local(link.Owner)), event, func(ctx context.Context) error {
		return db.AddLink(ctx, link, linkLifetime)
	})
	if err != nil {
		return "", fmt.Errorf("create a one-time link: %w", err)
	}
	return strings.TrimSuffix(base, "/") + "/login?" + url.Values{"code": {code}}.Encode(), nil
}

// errNoLink says that a code is unknown, used or too old.
var errNoLink = errors.New("the link was used already, or is older than 10 minutes")

// linkBrowser is a browser that a link signs in. Of a link for a named person the audit log has who made it.
func linkBrowser(l state.Link) state.Browser {
	if l.Name != "" {
		return state.Browser{Name: l.Name, Via: ViaLink, Roles: l.Roles}
	}
	return state.Browser{Name: "one-time link " + l.ID, Owner: l.Owner, Via: ViaLink, Roles: l.Roles}
}

// linkForm is the form of a one-time link, which signs in as somebody.
type linkForm struct{ As, Code string }

func (g *Guard) linkFormOf(ctx context.Context, code string) (fault, error) {
	found, err := g.options.DB.Link(ctx, hashOf(code))
	return fault{status: http.StatusOK, title: "Sign in", link: &linkForm{cmp.Or(found.Name, found.Owner), code}}, err
}

// loginByLink signs in whoever has the code of a one-time link.
func (g *Guard) loginByLink(w http.ResponseWriter, r *http.Request, v visit) {
	used, err := g.options.DB.UseLink(r.Context(), hashOf(r.PostFormValue("code")))
	if err != nil {
		g.refuseLink(w, r, v, err, errNoLink)
		return
	}
	g.signIn(w, r, v, linkBrowser(used), "one-time link "+used.ID, browserLifetime, "/")
}
