package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// maxInvitation is for how long an invitation is good at most.
	maxInvitation = 30 * 24 * time.Hour
	// ResetLifetime is for how long a link for the recovery of an account is good.
	ResetLifetime = 3 * 24 * time.Hour
)

// Person is somebody who has an account.
type Person = state.Person

// People are those who have accounts in an installation.
type People struct {
	db    *state.DB
	audit *Audit
}

// NewPeople returns the people in a database.
func NewPeople(db *state.DB, audit *Audit) *People { return &People{db, audit} }

// NewPerson has the parameters of an invitation.
type NewPerson struct {
	Name   string
	Roles  Roles
	Groups []string
	// Lifetime is how long the invitation is good.
	Lifetime time.Duration
}

func (n NewPerson) check() error {
	if err := spec.CheckName(n.Name); err != nil {
		return &NameError{text: "name of the person: " + err.Error()}
	}
	if n.Lifetime <= 0 || n.Lifetime > maxInvitation {
		return &NameError{text: fmt.Sprintf("an invitation is good for at most %s", textfmt.Duration(maxInvitation))}
	}
	return checkGiven(n.Roles, n.Groups)
}

// checkGiven refuses roles and groups that a person cannot have.
func checkGiven(roles Roles, groups []string) error {
	if len(roles) == 0 {
		return &NameError{text: "a person needs at least one role"}
	}
	return checkGroups(groups)
}

// ErrNoServer means that no server runs to which a link could lead.
var ErrNoServer = errors.New("no server runs for this store; start one with `maestro serve`")

// Invite makes an account for a person, and returns the link with which the person begins to use it. Its code is stored nowhere.
func (p *People) Invite(ctx context.Context, n NewPerson) (link string, made Person, err error) {
	event := Event{Action: "person.invite", Subject: n.Name, Detail: grants(n.Roles, n.Groups)}
	if err := mayGive(ctx, n.Roles, n.Groups); err != nil {
		p.audit.deny(ctx, event, err)
		return "", made, err
	}
	if err := n.check(); err != nil {
		return "", made, err
	}
	if err := mayInvite(ctx); err != nil {
		p.audit.deny(ctx, event, err)
		return "", made, err
	}
	actor, _ := Of(ctx)
	made = Person{ID: newID(), Name: n.Name, Roles: n.Roles, Groups: n.Groups, By: actor.Person(), ByID: actor.PersonID}
	link, err = p.link(ctx, event, made.ID, state.ForAccount, func(ctx context.Context, inv state.Invitation) error {
		var taken bool
		made, taken, err = p.db.AddPerson(ctx, made, inv, n.Lifetime)
		switch {
		case taken && p.hidden(ctx, n.Name):
			return &NameError{text: fmt.Sprintf("the name %s is taken; choose another", n.Name)}
		case taken:
			return &NameError{text: fmt.Sprintf("a person %s exists already; choose another name, or make a new link with `maestro "+
				"people reset %[1]s`", n.Name)}
		}
		return err
	})
	return link, made, err
}

// hidden reports whether the actor may not see the person with a name.
func (p *People) hidden(ctx context.Context, name string) bool {
	found, err := p.db.PersonNamed(ctx, name)
	return err != nil || mayManage(ctx, found.Roles) != nil
}

// mayInvite refuses agents: with a link for a person, or as a person with other roles, they would approve as one.
func mayInvite(ctx context.Context) error {
	if actor, _ := Of(ctx); actor.Over() != "" {
		return &DeniedError{Actor: actor.String(), Permission: Admin, Person: true}
	}
	return nil
}

// link makes a link for a person, whose invitation is added by a change that is recorded.
func (p *People) link(ctx context.Context, e Event, person string, purpose state.Purpose,
	add func(context.Context, state.Invitation) error,
) (string, error) {
	base := ServedAt(ctx, p.db)
	if base == "" {
		return "", ErrNoServer
	}
	code := newSecret()
	err := p.audit.do(ctx, e, func(ctx context.Context) error {
		return add(ctx, state.Invitation{Hash: hashOf(code), Person: person, Purpose: purpose})
	})
	if err != nil {
		return "", err
	}
	return joinLink(base, code), nil
}

// List returns the people whom the actor may manage, by name.
func (p *People) List(ctx context.Context) ([]Person, error) {
	if err := checkAdmin(ctx); err != nil {
		return nil, err
	}
	all, err := p.db.People(ctx)
	people := []Person{}
	for _, one := range all {
		if mayManage(ctx, one.Roles) == nil {
			people = append(people, one)
		}
	}
	return people, err
}

// managed finds a person whom the actor may manage, for a change if the event has an action. Who may not gets the same answer for
// those who exist and those who do not.
func (p *People) managed(ctx context.Context, e Event) (Person, error) {
	found, err := p.db.PersonNamed(ctx, e.Subject)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return found, err
	}
	if mayManage(ctx, found.Roles) != nil {
		denied := Check(ctx, Admin, AllTeams)
		if e.Action != "" {
			p.audit.deny(ctx, e, denied)
		}
		return Person{}, denied
	}
	if err != nil {
		return found, &NameError{Unknown: true, text: fmt.Sprintf("person %q not found; `maestro people list` lists them",
			textfmt.Shorten(e.Subject, 80))}
	}
	return found, nil
}

// SignIn is a browser that is signed in.
type SignIn struct {
	SignedInAt time.Time `json:"signed_in_at"`
	// LastUsed is within an hour of the last use.
	LastUsed  time.Time `json:"last_used"`
	ExpiresAt time.Time `json:"expires_at"`
	// This: it is the browser that asks.
	This bool `json:"this,omitempty"`
}

// Account is a person, and where the person is signed in.
type Account struct {
	Person
	SignIns  []SignIn
	Passkeys []state.Passkey
}

// Show returns the account of a person.
func (p *People) Show(ctx context.Context, name string) (Account, error) {
	found, err := p.managed(ctx, Event{Subject: name})
	if err != nil {
		return Account{}, err
	}
	return p.account(ctx, found)
}

// Own returns the account of the actor; it has no name for an actor without one.
func (p *People) Own(ctx context.Context) (Account, error) {
	actor, _ := Of(ctx)
	if actor.Via != ViaAccount {
		return Account{}, nil
	}
	own, err := p.db.Person(ctx, actor.PersonID)
	if err != nil {
		return Account{}, err
	}
	return p.account(ctx, own)
}

func (p *People) account(ctx context.Context, of Person) (Account, error) {
	all, err := p.db.BrowsersOf(ctx, of.ID, browserIdle)
	if err != nil {
		return Account{}, err
	}
	a := Account{Person: of, SignIns: []SignIn{}}
	this, _ := ctx.Value(browserKey{}).(state.Browser)
	for _, b := range all {
		a.SignIns = append(a.SignIns, SignIn{b.CreatedAt, b.SeenAt, b.ExpiresAt, b.Hash == this.Hash})
	}
	keys, err := p.db.PasskeysOf(ctx, of.ID)
	a.Passkeys = append([]state.Passkey{}, keys...)
	return a, err
}

// Changed is a person with other roles than before.
type Changed struct {
	Person
	// Link takes the place of the link for the account that was not used, and is as long good; empty if there was none, or if no
	// server runs.
	Link  string
	Until *time.Time
}

// SetRoles gives a person roles in place of those before, at once; groups too, unless they are nil. A link for the account that
// was not used ends.
func (p *People) SetRoles(ctx context.Context, name string, roles Roles, groups []string) (c Changed, err error) {
	event := Event{Action: "person.role", Subject: name, Detail: grants(roles, groups)}
	found, err := p.managed(ctx, event)
	if err != nil {
		return c, err
	}
	err = cmp.Or(mayInvite(ctx), mayGive(ctx, roles, groups))
	if groups == nil {
		groups = found.Groups
	}
	if !slices.Equal(groups, found.Groups) { // without a group, who could not give it would recover the account
		err = cmp.Or(err, mayGive(ctx, found.Roles, found.Groups))
	}
	if err != nil {
		p.audit.deny(ctx, event, err)
		return c, err
	}
	if err := checkGiven(roles, groups); err != nil {
		return c, err
	}
	event.Detail = grants(found.Roles, found.Groups) + " -> " + grants(roles, groups)
	code, base := newSecret(), ServedAt(ctx, p.db)
	var until time.Time
	err = p.audit.do(ctx, event, func(ctx context.Context) (err error) {
		until, err = p.db.SetRoles(ctx, found, roles, groups, hashOf(code))
		return changedSince(err, name)
	})
	found.Roles, found.Groups = roles, groups
	c.Person = found
	if base != "" && !until.IsZero() {
		c.Link, c.Until = joinLink(base, code), &until
	}
	return c, err
}

func joinLink(base, code string) string {
	return base + joinPath + "?" + url.Values{"code": {code}}.Encode()
}

// changedSince explains that a person has other roles than those for which the actor's rights were checked.
func changedSince(err error, name string) error {
	if errors.Is(err, state.ErrNotFound) {
		return &NameError{text: fmt.Sprintf("the roles of %s were changed meanwhile; look at them, and try again", name)}
	}
	return err
}

// Reset returns a link with which a person recovers the account: when it is used, the password, the passkeys and the
// sign-ins before end, the person's tokens, and a revocation.
func (p *People) Reset(ctx context.Context, name string) (link string, found Person, err error) {
	event := Event{Action: "person.reset", Subject: name}
	if found, err = p.managed(ctx, event); err != nil {
		return "", found, err
	}
	if err := cmp.Or(mayInvite(ctx), mayGive(ctx, found.Roles, found.Groups)); err != nil { // who has the link is the person
		p.audit.deny(ctx, event, err)
		return "", found, err
	}
	link, err = p.link(ctx, event, found.ID, state.ForRecovery, func(ctx context.Context, inv state.Invitation) error {
		return changedSince(p.db.Invite(ctx, found, inv, ResetLifetime), name)
	})
	return link, found, err
}

// Revoke ends what a person can sign in by, is signed in by, and has made tokens for, at once. A repetition ends what there is
// since, like a link.
func (p *People) Revoke(ctx context.Context, name string) (Person, error) {
	event := Event{Action: "person.revoke", Subject: name}
	found, err := p.managed(ctx, event)
	if err != nil {
		return found, err
	}
	actor, _ := Of(ctx)
	err = p.audit.do(ctx, event, func(ctx context.Context) error {
		found, err = p.db.RevokePerson(ctx, found.ID, actor.Name)
		return err
	})
	return found, err
}

// errWrongPassword is the same for a wrong name and a wrong password.
var errWrongPassword = errors.New("the name or the password is wrong")

// check finds the person with a name and a password, or errWrongPassword after the same work. known is the name if there is such
// a person: what somebody has typed may be a password.
func (p *People) check(ctx context.Context, name, password string) (found Person, known string, err error) {
	found, err = p.db.PersonNamed(ctx, name)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return found, "", err
	}
	of := nobody
	if found.Password != "" && found.RevokedAt == nil {
		of = found.Password
	}
	same, err := fits(ctx, password[:min(len(password), maxPassword+1)], of)
	if err == nil && (!same || of == nobody) {
		err = errWrongPassword
	}
	return found, found.Name, err
}
