package access

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/platform/httpserver"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// joinPath is where an invitation leads, and accountPath is the page of the signed-in person.
	joinPath    = "/login/join"
	accountPath = "/account"

	// maxForm is the largest form of a sign-in, in bytes.
	maxForm = 32 << 10
	// So many passwords of one network and in all are checked or wait for it.
	passwordsAtOnce = 4
	passwordsInAll  = 64
	// deviceLifetime is for how long a link for another device is good.
	deviceLifetime = 10 * time.Minute
	// recently is how long ago a person may have signed in who changes what the account is used by.
	recently = 15 * time.Minute
)

// postForm reads a form that a page of this server has sent. Nobody knows yet who sends it, so few are read at once.
func (g *Guard) postForm(w http.ResponseWriter, r *http.Request, v visit, handle func(http.ResponseWriter, *http.Request,
	visit),
) {
	err := checkBrowser(r, v, true)
	if err == nil {
		err = g.readUnverified(g.forms, v, func() error {
			r.Body = http.MaxBytesReader(w, newPacedBody(w, r.Body, signedPatience, math.MaxInt), maxForm)
			return readForm(r)
		})
	}
	switch {
	case err != nil:
		g.refuse(w, r, v, err)
	case g.mayBeSent(w, r, v):
		handle(w, r, v)
	}
}

// accountBrowser is a browser of a person with an account.
func accountBrowser(p state.Person) state.Browser {
	return state.Browser{Name: p.Name, PersonID: p.ID, Via: ViaAccount}
}

// loginByPassword signs a person in by name and password.
func (g *Guard) loginByPassword(w http.ResponseWriter, r *http.Request, v visit) {
	name, password := r.PostFormValue("name"), r.PostFormValue("password")
	found, known, err := g.checked(r.Context(), v, name, password)
	if err == nil {
		err = g.begin(w, r, v, accountBrowser(found), found.Password, "password", browserLifetime)
		if errors.Is(err, state.ErrNotFound) { // it was changed meanwhile
			err = errWrongPassword
		}
	}
	if err != nil {
		g.refusePassword(w, r, v, known, err)
		return
	}
	http.Redirect(w, r, localPath(r.PostFormValue("return")), http.StatusSeeOther) //nolint:gosec // a path of this server
}

// checked finds the person with a name and a password. Other than with secrets that nobody can guess, whoever has failed too
// often is refused before the password is looked at.
func (g *Guard) checked(ctx context.Context, v visit, name, password string) (found state.Person, known string, err error) {
	network := httpserver.Network(v.client)
	if ok, wait := g.failures.passwords.take(network); !ok {
		return found, "", &RefusedError{
			Status: http.StatusTooManyRequests, Title: "Too many failures",
			Text: "too many sign-ins from your address have failed; try again later", After: wait,
		}
	}
	done, own := g.hashing.Begin(network)
	switch {
	case own:
		return found, "", errTooMany
	case done == nil:
		return found, "", errBusy
	}
	defer done()
	same := strings.ToLower(safetext.Clip(name, maxGroup)) // no name is longer
	if ok, after := g.failures.guesses.take(same); !ok {
		return found, "", &RefusedError{
			Status: http.StatusTooManyRequests, Title: "Too many failures",
			Text:  "too many sign-ins with this name have failed; try again later, sign in by a passkey, or ask an admin for a link",
			After: after,
		}
	}
	if found, known, err = g.people.check(ctx, name, password); err == nil {
		g.failures.guesses.forget(same)
		g.failures.passwords.giveBack(network)
	}
	return found, known, err
}

// refusePassword answers a sign-in or a change with a password that failed. known is the name of the account, if there is one.
func (g *Guard) refusePassword(w http.ResponseWriter, r *http.Request, v visit, known string, err error) {
	var refused *RefusedError
	switch {
	case errors.Is(err, errWrongPassword):
		detail := "unknown name"
		if known != "" {
			detail = "wrong password of " + known
		}
		g.failures.note(r.Context(), v, "login", detail)
		g.answer(w, r, fault{status: http.StatusUnauthorized, title: "Sign in", text: err.Error(), signIn: true})
	case errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests:
		g.failures.note(r.Context(), v, "login", refused.Text)
		g.refuse(w, r, v, err)
	default:
		g.refuse(w, r, v, err)
	}
}

// joinForm is the form of an invitation.
type joinForm struct {
	Name, Code string
	// By invites the person, to something.
	By, To   string
	Purpose  state.Purpose
	Min, Max int
}

// invitedTo is what a person with roles can do, for somebody who does not know Maestro.
func invitedTo(roles Roles) string {
	switch {
	case roles.anywhere(RoleAdmin):
		return "manage teams of AI agents"
	case roles.anywhere(RoleOperator):
		return "run teams of AI agents"
	case roles.anywhere(RoleApprover):
		return "approve the work of AI agents"
	}
	return "see the work of AI agents"
}

// errNoInvitation says that a code is unknown, used or too old.
var errNoInvitation = errors.New("the link was used already, or is too old; ask an admin for another")

func (g *Guard) joinFormOf(ctx context.Context, code string) (fault, error) {
	inv, p, err := g.options.DB.Invitation(ctx, hashOf(code))
	return joinPage(http.StatusOK, "", inv, p, code), err
}

func joinPage(status int, text string, inv state.Invitation, p state.Person, code string) fault {
	return fault{
		status: status, title: "Welcome, " + p.Name, text: text,
		join: &joinForm{p.Name, code, p.By, invitedTo(p.Roles), inv.Purpose, minPassword, maxPassword},
	}
}

// join makes an account usable, or usable again, with a password, and signs its person in.
func (g *Guard) join(w http.ResponseWriter, r *http.Request, v visit) {
	code, password := r.PostFormValue("code"), r.PostFormValue("password")
	inv, p, err := g.options.DB.Invitation(r.Context(), hashOf(code))
	if err != nil {
		g.refuseLink(w, r, v, err, errNoInvitation)
		return
	}
	err = checkPassword(password)
	switch {
	case inv.Purpose == state.ForDevice:
		err = errors.New("this link is for a passkey")
	case err == nil && password != r.PostFormValue("again"):
		err = errors.New("the two passwords differ")
	}
	if err != nil {
		g.answer(w, r, joinPage(http.StatusUnprocessableEntity, err.Error(), inv, p, code))
		return
	}
	stored, err := g.hash(r.Context(), v, password)
	if err == nil {
		err = g.use(r.Context(), v, inv, p, stored, state.Passkey{})
	}
	if err == nil {
		err = g.begin(w, r, v, accountBrowser(p), stored, "invitation", browserLifetime)
	}
	if err != nil {
		g.refuseLink(w, r, v, err, errNoInvitation)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// hash computes what is stored of a password, if not too many are computed already.
func (g *Guard) hash(ctx context.Context, v visit, password string) (string, error) {
	done, _ := g.hashing.Begin(httpserver.Network(v.client))
	if done == nil {
		return "", errBusy
	}
	defer done()
	return hashPassword(ctx, password)
}

// use uses an invitation up, as its person. The error is [state.ErrNotFound] if it was used meanwhile.
func (g *Guard) use(
	ctx context.Context, v visit, inv state.Invitation, p state.Person, password string, key state.Passkey,
) error {
	if g.options.ReadOnly {
		return &DeniedError{Actor: p.Name, Permission: Admin, ReadOnly: true}
	}
	event := Event{Action: "person.join", Subject: p.Name, Detail: string(inv.Purpose)}
	return g.options.Audit.do(With(ctx, g.actor(accountBrowser(p), v)), event, func(ctx context.Context) error {
		return g.options.DB.Join(ctx, inv, password, key)
	})
}

// accountForm changes something of the account of the signed-in person. A note is shown on a page of its own.
type accountForm func(r *http.Request, v visit, own state.Person, browser state.Browser) (note fault, err error)

// accountForm is the form of the account's page at a path; nil: there is none.
func (g *Guard) accountForm(path string) accountForm {
	switch path {
	case accountPath + "/password":
		return g.changePassword
	case accountPath + "/sign-out":
		return g.signOutOthers
	case accountPath + "/device":
		return g.linkDevice
	case accountPath + "/passkey":
		return g.removePasskey
	}
	return nil
}

// ofAccount handles a form of the account's page.
func (g *Guard) ofAccount(form accountForm) func(http.ResponseWriter, *http.Request, visit) {
	return func(w http.ResponseWriter, r *http.Request, v visit) {
		own, c, err := g.own(r, v)
		var note fault
		if err == nil {
			note, err = form(r.WithContext(With(r.Context(), c.actor)), v, own, c.who)
		}
		var wrong *inputError
		switch {
		case errors.As(err, &wrong):
			g.answer(w, r, fault{
				status: http.StatusUnprocessableEntity, title: "Nothing was changed", text: wrong.Error(),
				back: accountPath,
			})
		case err != nil:
			g.refusePassword(w, r, v, own.Name, err)
		case note.title != "":
			g.answer(w, r, note)
		default:
			http.Redirect(w, r, accountPath, http.StatusSeeOther)
		}
	}
}

// inputError says what is wrong in a form of the account's page.
type inputError struct{ text string }

func (e *inputError) Error() string { return e.text }

// own finds the account of the signed-in person, who may change it.
func (g *Guard) own(r *http.Request, v visit) (own state.Person, c credential, err error) {
	if c, err = g.identify(r, v); err != nil {
		return own, c, err
	}
	if c.actor.Via != ViaAccount {
		return own, c, &inputError{c.actor.Name + " has no account here"}
	}
	if c.actor.ReadOnly {
		return own, c, &DeniedError{Actor: c.actor.Name, Permission: Admin, ReadOnly: true}
	}
	own, err = g.options.DB.Person(r.Context(), c.actor.PersonID)
	return own, c, err
}

// fresh refuses a change by a browser that has signed in some time ago: somebody else may sit there.
func (g *Guard) fresh(browser state.Browser) error {
	if g.options.Now().Sub(browser.CreatedAt) > recently {
		return &inputError{"you have signed in some time ago; sign out, sign in, and repeat it within 15 minutes"}
	}
	return nil
}

func (g *Guard) changePassword(r *http.Request, v visit, own state.Person, browser state.Browser) (note fault, err error) {
	password := r.PostFormValue("password")
	if err := checkPassword(password); err != nil {
		return note, &inputError{err.Error()}
	}
	if password != r.PostFormValue("again") {
		return note, &inputError{"the two passwords differ"}
	}
	if own.Password == "" {
		err = g.fresh(browser)
	} else if _, _, err = g.checked(r.Context(), v, own.Name, r.PostFormValue("current")); errors.Is(err, errWrongPassword) {
		g.failures.note(r.Context(), v, "person.password", "wrong password of "+own.Name)
		err = &inputError{"your current password is another"}
	}
	if err != nil {
		return note, err
	}
	stored, err := g.hash(r.Context(), v, password)
	if err != nil {
		return note, err
	}
	return note, g.options.Audit.do(r.Context(), Event{Action: "person.password", Subject: own.Name},
		func(ctx context.Context) error {
			return g.options.DB.SetPassword(ctx, own.ID, own.Password, stored, browser.Hash)
		})
}

func (g *Guard) signOutOthers(r *http.Request, _ visit, own state.Person, browser state.Browser) (note fault, err error) {
	return note, g.options.Audit.do(r.Context(), Event{Action: "logout", Subject: "other browsers of " + own.Name},
		func(ctx context.Context) error {
			return g.options.DB.RemoveBrowsers(ctx, own.ID, browser.Hash)
		})
}

func (g *Guard) linkDevice(r *http.Request, v visit, own state.Person, browser state.Browser) (note fault, err error) {
	if err := g.fresh(browser); err != nil {
		return note, err
	}
	if g.relyingParty(v) == nil {
		return note, &inputError{"passkeys work by https, at the first name of this server, or at localhost"}
	}
	code := newSecret()
	err = g.options.Audit.do(r.Context(), Event{Action: "person.device", Subject: own.Name}, func(ctx context.Context) error {
		return g.options.DB.Invite(ctx, own, state.Invitation{Hash: hashOf(code), Person: own.ID, Purpose: state.ForDevice},
			deviceLifetime)
	})
	return fault{status: http.StatusOK, title: "Another device", device: v.origin() + joinPath + "?code=" + code, back: accountPath},
		err
}

func (g *Guard) removePasskey(r *http.Request, _ visit, own state.Person, browser state.Browser) (note fault, err error) {
	id := r.PostFormValue("id")
	if err := g.fresh(browser); err != nil {
		return note, err
	}
	return note, g.options.Audit.do(r.Context(), Event{Action: "passkey.remove", Subject: own.Name, Detail: id},
		func(ctx context.Context) error {
			err := g.options.DB.RemovePasskey(ctx, own.ID, id, browser.Hash)
			if errors.Is(err, state.ErrNotFound) {
				err = &inputError{"there is no such passkey"}
			}
			return err
		})
}
