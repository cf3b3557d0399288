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
	// usualInvitation is for how long an invitation is good that says nothing else.
	usualInvitation = 3 * 24 * time.Hour
	// resetLifetime is for how long a link for the recovery of an account is good.
	resetLifetime = 3 * 24 * time.Hour
)

// Person is a person with an account.
type Person struct {
	state.Person
	State string `json:"state" enum:"invited,active,revoked"`
	Link  string `json:"link,omitempty" doc:"the link with which the person begins, in the answer that makes it only; other roles replace a link that was not used"`
	// LinkUntil is when the link ends.
	LinkUntil *time.Time `json:"link_expires_at,omitempty" doc:"when the link ends"`
}

func personOf(p state.Person) Person { return Person{Person: p, State: p.State()} }

// People are those who have accounts in an installation.
type People struct {
	db    *state.DB
	audit *Audit
	now   func() time.Time
}

// NewPeople returns the people in a database.
func NewPeople(db *state.DB, audit *Audit, now func() time.Time) *People {
	return &People{db, audit, now}
}

// NewPerson is the properties of a new account.
type NewPerson struct {
	Name   string           `json:"name" minLength:"1" maxLength:"63" doc:"letters, digits, - and _"`
	Roles  []string         `json:"roles" minItems:"1" maxItems:"100" doc:"ROLE for all teams, or ROLE:TEAM"`
	Groups []string         `json:"groups,omitempty" maxItems:"20" doc:"groups that the person is a member of, as in approve.by of a phase; an admin of some teams can give only the admin's own groups"`
	For    textfmt.Duration `json:"for,omitempty" doc:"how long the link is good, 30 days at most; left out: 3 days"`
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

// Invite makes an account for a person, with the link with which the person begins to use it. Its code is stored nowhere.
func (p *People) Invite(ctx context.Context, n NewPerson) (Person, error) {
	roles, err := rolesOf(n.Roles)
	if err != nil {
		return Person{}, err
	}
	event := Event{Action: "person.invite", Subject: n.Name, Detail: grants(roles, n.Groups)}
	if err := mayGive(ctx, roles, n.Groups); err != nil {
		p.audit.deny(ctx, event, err)
		return Person{}, err
	}
	lifetime := cmp.Or(n.For.Std(), usualInvitation)
	if err := spec.CheckName(n.Name); err != nil {
		return Person{}, &NameError{text: "name of the person: " + err.Error()}
	}
	if lifetime <= 0 || lifetime > maxInvitation {
		return Person{}, &NameError{text: fmt.Sprintf("an invitation is good for at most %s", textfmt.Duration(maxInvitation))}
	}
	if err := checkGiven(roles, n.Groups); err != nil {
		return Person{}, err
	}
	if err := mayInvite(ctx); err != nil {
		p.audit.deny(ctx, event, err)
		return Person{}, err
	}
	actor, _ := Of(ctx)
	made := state.Person{ID: newID(), Name: n.Name, Roles: roles, Groups: n.Groups, By: actor.Person(), ByID: actor.PersonID}
	return p.link(ctx, event, &made, state.ForAccount, lifetime, func(ctx context.Context, inv state.Invitation) error {
		var taken bool
		made, taken, err = p.db.AddPerson(ctx, made, inv, lifetime)
		switch {
		case taken && p.hidden(ctx, n.Name):
			return &NameError{text: fmt.Sprintf("the name %s is taken; choose another", n.Name)}
		case taken:
			return &NameError{text: fmt.Sprintf("a person %s exists already; choose another name, or make a new link with `maestro "+
				"people reset %[1]s`", n.Name)}
		}
		return err
	})
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
func (p *People) link(ctx context.Context, e Event, of *state.Person, purpose state.Purpose, lifetime time.Duration,
	add func(context.Context, state.Invitation) error,
) (Person, error) {
	base := ServedAt(ctx, p.db)
	if base == "" {
		return Person{}, ErrNoServer
	}
	code := newSecret()
	err := p.audit.do(ctx, e, func(ctx context.Context) error {
		return add(ctx, state.Invitation{Hash: hashOf(code), Person: of.ID, Purpose: purpose})
	})
	if err != nil {
		return Person{}, err
	}
	return Person{*of, of.State(), joinLink(base, code), new(p.now().Add(lifetime))}, nil
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
			people = append(people, personOf(one))
		}
	}
	return people, err
}

// managed finds a person whom the actor may manage, for a change if the event has an action. Who may not gets the same answer for
// those who exist and those who do not.
func (p *People) managed(ctx context.Context, e Event) (state.Person, error) {
	found, err := p.db.PersonNamed(ctx, e.Subject)
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return found, err
	}
	if mayManage(ctx, found.Roles) != nil {
		denied := Check(ctx, Admin, AllTeams)
		if e.Action != "" {
			p.audit.deny(ctx, e, denied)
		}
		return state.Person{}, denied
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

// Account is a person's account, and where the person is signed in.
type Account struct {
	Person
	SignIns  []SignIn        `json:"sign_ins" doc:"browsers that are signed in, those used last first"`
	Passkeys []state.Passkey `json:"passkeys"`
	// HasPassword: the person can sign in by a password.
	HasPassword bool `json:"has_password"`
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
		return Account{Person: personOf(state.Person{})}, nil
	}
	own, err := p.db.Person(ctx, actor.PersonID)
	if err != nil {
		return Account{}, err
	}
	return p.account(ctx, own)
}

func (p *People) account(ctx context.Context, of state.Person) (Account, error) {
	all, err := p.db.BrowsersOf(ctx, of.ID, browserIdle)
	if err != nil {
		return Account{}, err
	}
	a := Account{Person: personOf(of), SignIns: []SignIn{}, HasPassword: of.Password != ""}
	this, _ := ctx.Value(browserKey{}).(state.Browser)
	for _, b := range all {
		a.SignIns = append(a.SignIns, SignIn{b.CreatedAt, b.SeenAt, b.ExpiresAt, b.Hash == this.Hash})
	}
	keys, err := p.db.PasskeysOf(ctx, of.ID)
	a.Passkeys = append([]state.Passkey{}, keys...)
	return a, err
}

// PersonRoles are what a person gets in place of what was before.
type PersonRoles struct {
	Roles  []string `json:"roles" minItems:"1" maxItems:"100" doc:"ROLE for all teams, or ROLE:TEAM"`
	Groups []string `json:"groups,omitempty" maxItems:"20" doc:"groups of the person; left out: those before"`
	// NoGroups: the person is a member of no group any more.
	NoGroups bool `json:"no_groups,omitempty" doc:"the person is a member of no group any more"`
}

// SetRoles gives a person roles in place of those before, at once. A link for the account that was not used ends; the person has
// another in its place, which is as long good, if a server runs.
func (p *People) SetRoles(ctx context.Context, name string, in PersonRoles) (c Person, err error) {
	roles, err := rolesOf(in.Roles)
	if err != nil {
		return c, err
	}
	groups := in.Groups
	if in.NoGroups {
		groups = []string{}
	}
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
	c = personOf(found)
	if base != "" && !until.IsZero() {
		c.Link, c.LinkUntil = joinLink(base, code), &until
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

// Reset returns a person with a link by which the account is recovered: when it is used, the password, the passkeys and the
// sign-ins before end, the person's tokens, and a revocation.
func (p *People) Reset(ctx context.Context, name string) (Person, error) {
	event := Event{Action: "person.reset", Subject: name}
	found, err := p.managed(ctx, event)
	if err != nil {
		return Person{}, err
	}
	if err := cmp.Or(mayInvite(ctx), mayGive(ctx, found.Roles, found.Groups)); err != nil { // who has the link is the person
		p.audit.deny(ctx, event, err)
		return Person{}, err
	}
	return p.link(ctx, event, &found, state.ForRecovery, resetLifetime, func(ctx context.Context, inv state.Invitation) error {
		return changedSince(p.db.Invite(ctx, found, inv, resetLifetime), name)
	})
}

// Revoke ends what a person can sign in by, is signed in by, and has made tokens for, at once. A repetition ends what there is
// since, like a link.
func (p *People) Revoke(ctx context.Context, name string) (Person, error) {
	event := Event{Action: "person.revoke", Subject: name}
	found, err := p.managed(ctx, event)
	if err != nil {
		return Person{}, err
	}
	actor, _ := Of(ctx)
	err = p.audit.do(ctx, event, func(ctx context.Context) error {
		found, err = p.db.RevokePerson(ctx, found.ID, actor.Name)
		return err
	})
	return personOf(found), err
}

// errWrongPassword is the same for a wrong name and a wrong password.
var errWrongPassword = errors.New("the name or the password is wrong")

// check finds the person with a name and a password, or errWrongPassword after the same work. known is the name if there is such
// a person: what somebody has typed may be a password.
func (p *People) check(ctx context.Context, name, password string) (found state.Person, known string, err error) {
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
