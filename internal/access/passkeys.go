package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/maestro-hive/maestro/internal/platform/httpserver"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	// passkeyPath is where the script of a page begins and finishes ceremonies.
	passkeyPath = "/login/passkey"
	// ceremonyCookie is the purpose of the cookie that binds a ceremony to its browser.
	ceremonyCookie = "passkey-"
	// ceremonyLifetime is for how long a person may take, and maxCeremonies are under way at once.
	ceremonyLifetime = 5 * time.Minute
	maxCeremonies    = 2000
	maxPasskeys      = 20
)

// relyingParty is this server for passkeys, by its first name, or as localhost if it has only addresses; nil: the visitor calls
// it by another name, or not by https.
func (g *Guard) relyingParty(v visit) *webauthn.WebAuthn {
	own, err := url.Parse(g.URL())
	if err != nil {
		return nil
	}
	name := strings.ToLower(own.Hostname())
	if _, err := netip.ParseAddr(name); err == nil {
		name = "localhost"
	}
	if !v.maySend() || hostName(v.host) != name {
		return nil
	}
	limit := webauthn.TimeoutConfig{Enforce: true, Timeout: ceremonyLifetime, TimeoutUVD: ceremonyLifetime}
	party, err := webauthn.New(&webauthn.Config{
		RPID: name, RPDisplayName: "Maestro", RPOrigins: []string{v.origin()}, Timeouts: webauthn.TimeoutsConfig{
			Login:        limit,
			Registration: limit,
		},
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey:      protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired,
		},
	})
	if err != nil {
		return nil
	}
	return party
}

// keyHolder is a person with passkeys.
type keyHolder struct {
	state.Person
	keys []state.Passkey
}

// WebAuthnID implements [webauthn.User].
func (h keyHolder) WebAuthnID() []byte { return []byte(h.ID) }

// WebAuthnName implements [webauthn.User].
func (h keyHolder) WebAuthnName() string { return h.Name }

// WebAuthnDisplayName implements [webauthn.User].
func (h keyHolder) WebAuthnDisplayName() string { return h.Name }

// WebAuthnCredentials implements [webauthn.User].
func (h keyHolder) WebAuthnCredentials() (all []webauthn.Credential) {
	for _, key := range h.keys {
		var c webauthn.Credential
		if json.Unmarshal(key.Credential, &c) == nil {
			all = append(all, c)
		}
	}
	return all
}

func (g *Guard) keyHolder(ctx context.Context, person string) (keyHolder, error) {
	p, err := g.options.DB.Person(ctx, person)
	if err != nil {
		return keyHolder{}, err
	}
	keys, err := g.options.DB.PasskeysOf(ctx, person)
	return keyHolder{p, keys}, err
}

// ceremony is a use or a creation of a passkey under way.
type ceremony struct {
	Session webauthn.SessionData
	// Person gets a new passkey; empty: somebody signs in.
	Person string
	// Invitation is used up by the new passkey; zero: the person is signed in.
	Invitation state.Invitation
}

// errNoPasskey refuses a passkey. It has no details on purpose.
var errNoPasskey = &RefusedError{
	Status: http.StatusUnauthorized, Title: "Not signed in",
	Text: "the passkey is not known here, or too much time has passed; try again, or use your password",
}

// beginPasskey begins a ceremony, and answers with what the browser has to know.
func (g *Guard) beginPasskey(w http.ResponseWriter, r *http.Request, v visit) {
	party := g.relyingParty(v)
	if party == nil {
		g.refuse(w, r, v, &RefusedError{
			Status: http.StatusConflict, Title: "No passkeys here",
			Text: "passkeys work by https, at the first name of this server, or at localhost; use a password",
		})
		return
	}
	if ok, after := g.failures.ceremonies.take(httpserver.Network(v.client)); !ok {
		g.refuse(w, r, v, &RefusedError{
			Status: http.StatusTooManyRequests, Title: "Too many calls", Text: errTooMany.Error(),
			After: after,
		})
		return
	}
	var under ceremony
	var options any
	var session *webauthn.SessionData
	holder, err := g.newHolder(r, v, &under)
	if err == nil && under.Person == "" {
		options, session, err = party.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	} else if err == nil {
		options, session, err = party.BeginRegistration(holder,
			webauthn.WithExclusions(webauthn.Credentials(holder.WebAuthnCredentials()).CredentialDescriptors()))
	}
	cookie := newSecret()
	if err == nil {
		under.Session = *session
		data, _ := json.Marshal(under) // texts, numbers and times
		err = g.options.DB.AddCeremony(r.Context(), hashOf(cookie), data, ceremonyLifetime, maxCeremonies)
	}
	if err != nil {
		g.refusePasskey(w, r, v, err)
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // see setCookie
		Name: v.cookieName(ceremonyCookie), Value: cookie, Path: "/", MaxAge: int(ceremonyLifetime / time.Second), Secure: v.secure,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(options)
}

// newHolder finds the person who gets a passkey: of an invitation, or the signed-in one. It notes that in the ceremony.
func (g *Guard) newHolder(r *http.Request, v visit, under *ceremony) (holder keyHolder, err error) {
	code := r.PostFormValue("code")
	switch {
	case r.PostFormValue("for") != "new":
		return holder, nil
	case code != "":
		inv, _, err := g.options.DB.Invitation(r.Context(), hashOf(code))
		if err != nil {
			return holder, err
		}
		under.Invitation, under.Person = inv, inv.Person
	default:
		own, c, err := g.own(r, v)
		if err == nil {
			err = g.fresh(c.who)
		}
		if err != nil {
			return holder, err
		}
		under.Person = own.ID
	}
	holder, err = g.keyHolder(r.Context(), under.Person)
	if err == nil && len(holder.keys) >= maxPasskeys {
		err = &inputError{fmt.Sprintf("you have %d passkeys already; remove one", len(holder.keys))}
	}
	return holder, err
}

// refusePasskey answers a ceremony that failed.
func (g *Guard) refusePasskey(w http.ResponseWriter, r *http.Request, v visit, err error) {
	var wrong *inputError
	var protocolError *protocol.Error
	switch {
	case errors.As(err, &wrong):
		err = &RefusedError{Status: http.StatusUnprocessableEntity, Title: "Nothing was changed", Text: wrong.Error()}
	case errors.Is(err, state.ErrNotFound), errors.Is(err, errNoPasskey), errors.As(err, &protocolError):
		g.failures.note(r.Context(), v, "login", "a passkey that is not valid")
		err = errNoPasskey
	}
	g.refuse(w, r, v, err)
}

// finishPasskey ends the ceremony of a browser, and answers with the page to go to.
func (g *Guard) finishPasskey(w http.ResponseWriter, r *http.Request, v visit) {
	next, err := "", error(errNoPasskey)
	if party, under := g.relyingParty(v), (ceremony{}); party != nil {
		var data json.RawMessage
		if data, err = g.options.DB.UseCeremony(r.Context(), hashOf(v.cookie(r, ceremonyCookie))); err == nil {
			err = json.Unmarshal(data, &under)
		}
		answer := []byte(r.PostFormValue("credential"))
		switch {
		case err != nil:
		case under.Person == "":
			next, err = localPath(r.PostFormValue("return")), g.loginByPasskey(w, r, v, party, under.Session, answer)
		default:
			next, err = g.addPasskey(w, r, v, party, under, answer)
		}
	}
	if err != nil {
		g.refusePasskey(w, r, v, err)
		return
	}
	g.failures.ceremonies.giveBack(httpserver.Network(v.client))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"next": next})
}

func (g *Guard) loginByPasskey(w http.ResponseWriter, r *http.Request, v visit, party *webauthn.WebAuthn,
	session webauthn.SessionData, answer []byte,
) error {
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return errNoPasskey
	}
	var holder keyHolder
	_, used, err := party.ValidatePasskeyLogin(func(_, handle []byte) (_ webauthn.User, err error) {
		holder, err = g.keyHolder(r.Context(), string(handle))
		return holder, err
	}, session, parsed)
	if err != nil || used.Authenticator.CloneWarning { // a counter that went back is that of a copy
		return errNoPasskey
	}
	id := base64.RawURLEncoding.EncodeToString(used.ID)
	after, err := json.Marshal(used)
	for _, key := range holder.keys {
		if err == nil && key.ID == id {
			err = g.options.DB.UsePasskey(r.Context(), key, after)
		}
	}
	if err != nil {
		return err
	}
	return g.begin(w, r, v, accountBrowser(holder.Person), id, "passkey "+id, browserLifetime)
}

func (g *Guard) addPasskey(w http.ResponseWriter, r *http.Request, v visit, party *webauthn.WebAuthn, under ceremony,
	answer []byte,
) (next string, err error) {
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return "", errNoPasskey
	}
	holder, err := g.keyHolder(r.Context(), under.Person)
	if err != nil {
		return "", err
	}
	made, err := party.CreateCredential(holder, under.Session, parsed)
	if err != nil {
		return "", err
	}
	key := state.Passkey{ID: base64.RawURLEncoding.EncodeToString(made.ID), Person: holder.ID}
	if key.Credential, err = json.Marshal(made); err != nil {
		return "", err
	}
	if under.Invitation.Hash != "" {
		if err := g.use(r.Context(), v, under.Invitation, holder.Person, "", key); err != nil {
			return "", err
		}
		return "/", g.begin(w, r, v, accountBrowser(holder.Person), key.ID, "invitation, passkey "+key.ID, browserLifetime)
	}
	own, c, err := g.own(r, v)
	switch {
	case err != nil:
		return "", err
	case own.ID != holder.ID:
		return "", errNoPasskey
	}
	event := Event{Action: "passkey.add", Subject: own.Name, Detail: key.ID}
	return accountPath, g.options.Audit.do(With(r.Context(), c.actor), event, func(ctx context.Context) error {
		return g.options.DB.AddPasskey(ctx, key)
	})
}
