package access

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/httpclient"
	"github.com/maestro-hive/maestro/internal/store/state"
)

const (
	oidcPath     = "/login/oidc"
	callbackPath = "/login/callback"

	// oidcLifetime is for how long a sign-in is good: groups are read again after it.
	oidcLifetime = 12 * time.Hour
	// providerLimit bounds a call to the provider, and providerBody its answer.
	providerLimit = 10 * time.Second
	providerBody  = 1 << 20
	// providerPause is for how long a provider is not called that could not be reached.
	providerPause = 2 * time.Second
	// maxGroups are kept of one person's groups, those with a role before the others.
	maxGroups = 200
)

// GroupRole gives a group of the provider a role.
type GroupRole struct {
	Group string
	Roles Roles
}

// ParseGroupRole reads GROUP=ROLE or GROUP=ROLE:TEAM.
func ParseGroupRole(text string) (GroupRole, error) {
	at := strings.LastIndex(text, "=")
	if at < 1 {
		return GroupRole{}, fmt.Errorf("%.80q is not GROUP=ROLE or GROUP=ROLE:TEAM", text)
	}
	roles, err := ParseRoles(text[at+1:])
	return GroupRole{text[:at], roles}, err
}

// MailRole gives people of the provider a role by their verified address of mail.
type MailRole struct {
	// Mail is an address, or with nothing before the @ all addresses of a domain; in lower case.
	Mail  string
	Roles Roles
}

// ParseMailRole reads ADDRESS=ROLE, or with nothing before the @ DOMAIN=ROLE. ROLE may be ROLE:TEAM.
func ParseMailRole(text string) (MailRole, error) {
	mail, grant, _ := strings.Cut(text, "=")
	local, domain, ok := strings.Cut(plainMail(mail), "@")
	if !ok || !strings.Contains(domain, ".") || strings.ContainsAny(local+domain, " *,") {
		return MailRole{}, fmt.Errorf("%.80q is not ADDRESS=ROLE or DOMAIN=ROLE, with :TEAM for one team",
			strings.TrimPrefix(text, "@"))
	}
	roles, err := ParseRoles(grant)
	return MailRole{plainMail(mail), roles}, err
}

// plainMail is an address in lower case; empty if it is not one that is compared. Letters outside of ASCII may become others in
// lower case, and quoted names may have an @.
func plainMail(mail string) string {
	notPlain := func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' }
	if strings.ContainsFunc(mail, notPlain) || strings.Count(mail, "@") != 1 {
		return ""
	}
	return strings.ToLower(mail)
}

// OIDCOptions names the provider by which people sign in (OpenID Connect).
type OIDCOptions struct {
	// Issuer is the provider's address, and ClientID and Secret are what it knows this server by.
	Issuer, ClientID, Secret string
	// GroupsClaim is the claim that has a person's groups; empty: groups.
	GroupsClaim string
	// Scopes are asked for besides openid, profile and email.
	Scopes []string
	Groups []GroupRole
	Mails  []MailRole
	// Transport carries calls to the provider; nil: the usual one.
	Transport http.RoundTripper
}

// oidcProvider signs people in by a provider.
type oidcProvider struct {
	options OIDCOptions
	now     func() time.Time
	client  *http.Client

	mu sync.Mutex
	// found is the provider as it describes itself; nil: it was not reached yet, and failed
	// says why and until when nobody tries again.
	found  *oidc.Provider
	failed error
	until  time.Time
}

func newOIDC(o *OIDCOptions, now func() time.Time) *oidcProvider {
	if o == nil {
		return nil
	}
	transport := httpclient.Bounded{RoundTripper: cmp.Or(o.Transport, http.DefaultTransport), Limit: providerBody}
	p := &oidcProvider{options: *o, now: now, client: &http.Client{Transport: transport, Timeout: providerLimit}}
	p.options.GroupsClaim = cmp.Or(o.GroupsClaim, "groups")
	return p
}

// roles are those that groups and a verified address have.
func (p *oidcProvider) roles(groups []string, mail string) Roles {
	roles := Roles{}
	if p == nil {
		return roles
	}
	for _, g := range p.options.Groups {
		if slices.Contains(groups, g.Group) {
			roles = roles.Merge(g.Roles)
		}
	}
	mail = plainMail(mail)
	for _, m := range p.options.Mails {
		local, fits := strings.CutSuffix(mail, m.Mail)
		if fits && (local != "") == (m.Mail[0] == '@') {
			roles = roles.Merge(m.Roles)
		}
	}
	return roles
}

// errProvider says that the provider cannot be reached, or is not what it should be.
var errProvider = errors.New("the provider of sign-ins cannot be used")

// provider asks the provider once what its addresses and keys are.
func (p *oidcProvider) provider() (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found == nil && p.failed != nil && p.now().Before(p.until) {
		return nil, p.failed
	}
	if p.found == nil {
		// Its context is used again for later keys. The client bounds each call.
		found, err := oidc.NewProvider(oidc.ClientContext(context.Background(), p.client), p.options.Issuer)
		if err != nil {
			p.failed, p.until = fmt.Errorf("%w: %w", errProvider, err), p.now().Add(providerPause)
			return nil, p.failed
		}
		p.found = found
	}
	return p.found, nil
}

func (p *oidcProvider) config(found *oidc.Provider, callback string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.options.ClientID, ClientSecret: p.options.Secret, Endpoint: found.Endpoint(), RedirectURL: callback,
		Scopes: append([]string{oidc.ScopeOpenID, "profile", "email"}, p.options.Scopes...),
	}
}

// attempt is a sign-in under way. The browser keeps it in a cookie for a short time.
type attempt struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Return   string `json:"return"`
}

// begin returns the provider's address at which a person signs in.
func (p *oidcProvider) begin(a attempt, callback string) (string, error) {
	found, err := p.provider()
	if err != nil {
		return "", err
	}
	return p.config(found, callback).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), nil
}

// errIdentity says that what a provider states of a person is not for this sign-in.
var errIdentity = errors.New("the provider's answer is not valid for this sign-in")

// finish exchanges a code of the provider for who has signed in.
func (p *oidcProvider) finish(ctx context.Context, a attempt, code, callback string) (who state.Browser, err error) {
	found, err := p.provider()
	if err != nil {
		return who, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), 2*providerLimit)
	defer cancel()
	token, err := p.config(found, callback).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return who, fmt.Errorf("%w: %w", errIdentity, err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := found.Verifier(&oidc.Config{ClientID: p.options.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return who, fmt.Errorf("%w: %w", errIdentity, err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		return who, fmt.Errorf("%w: it has another nonce", errIdentity)
	}
	claims := map[string]json.RawMessage{}
	if err := id.Claims(&claims); err != nil {
		return who, fmt.Errorf("%w: %w", errIdentity, err)
	}
	maps.DeleteFunc(claims, isNull)
	var party string
	_ = json.Unmarshal(claims["azp"], &party)
	if len(id.Audience) > 1 && party != p.options.ClientID || id.Subject == "" {
		return who, fmt.Errorf("%w: it is for another client", errIdentity)
	}
	if claims[p.options.GroupsClaim] == nil || len(p.options.Mails) > 0 &&
		(claims["email"] == nil || claims["email_verified"] == nil) {
		if err := p.addUserInfo(ctx, found, token, id.Subject, claims); err != nil {
			return who, err
		}
	}
	groups := groupsOf(claims[p.options.GroupsClaim])
	who = state.Browser{
		Name: nameOf(id.Subject, claims), PersonID: personID(id.Issuer, id.Subject), Mail: verifiedMail(claims),
		Via: ViaOIDC, Groups: p.kept(groups),
	}
	if len(p.roles(groups, who.Mail)) == 0 {
		return who, &noRoleError{who.Name + p.whyNoRole(groups, claims)}
	}
	return who, nil
}

// noRoleError says why a person whom the provider knows gets no role here.
type noRoleError struct{ text string }

// Error says who it is, why there is no role, and what can be done.
func (e *noRoleError) Error() string { return e.text }

// kept returns the groups that are stored with a sign-in. A person may be in thousands of groups, so
// those with a role come first.
func (p *oidcProvider) kept(groups []string) []string {
	hasNone := func(group string) int {
		if slices.ContainsFunc(p.options.Groups, func(g GroupRole) bool { return g.Group == group }) {
			return 0
		}
		return 1
	}
	all := slices.Clone(groups)
	slices.SortStableFunc(all, func(x, y string) int { return hasNone(x) - hasNone(y) })
	return all[:min(len(all), maxGroups)]
}

// whyNoRole returns the reason, as the rest of a sentence that begins with the person's name, and the
// way out. A provider that leaves groups out says so in other claims (OpenID Connect Core 5.6.2;
// Entra's hasgroups), or not at all.
func (p *oidcProvider) whyNoRole(groups []string, claims map[string]json.RawMessage) string {
	claim := p.options.GroupsClaim
	elsewhere := map[string]json.RawMessage{}
	_ = json.Unmarshal(claims["_claim_names"], &elsewhere)
	const admin = "; an admin of this server can "
	switch {
	case len(p.options.Mails) > 0 && verifiedMail(claims) == "":
		return " has no role, because the provider does not state a verified address of mail" + admin +
			"let it state the claims email and email_verified"
	case len(p.options.Mails) > 0 && len(p.options.Groups) == 0:
		return " has no role here" + admin + "give one with --oidc-person or --oidc-domain"
	case len(groups) > 0:
		return fmt.Sprintf(" is in no group that has a role here (the provider names %s)"+admin+"give one of them a role",
			textfmt.Count(len(groups), "group"))
	case elsewhere[claim] != nil || isTrue(claims["hasgroups"]):
		return " is in too many groups for the provider's token, which leaves all of them out" + admin +
			"let the provider state only the groups that are assigned to this application, or state app roles" +
			" (in Entra the claim roles, with --oidc-groups-claim roles)"
	case claims[claim] == nil:
		return fmt.Sprintf(" has no role, because the provider states no claim %q"+admin+
			"add the claim at the provider, ask for it with --oidc-scope, or name another with --oidc-groups-claim", claim)
	}
	return fmt.Sprintf(" has no role, because the provider's claim %q is empty or is no list of names"+admin+
		"name the claim that has the groups with --oidc-groups-claim", claim)
}

// personID identifies a person of a provider. The name may change, and the person may choose it.
func personID(issuer, subject string) string {
	return string(spec.DigestOf([]byte(issuer + "\x00" + subject))[:32])
}

// addUserInfo adds the claims that the provider states only at its endpoint for users.
func (p *oidcProvider) addUserInfo(ctx context.Context, found *oidc.Provider, token *oauth2.Token, subject string,
	claims map[string]json.RawMessage,
) error {
	if found.UserInfoEndpoint() == "" {
		return nil
	}
	info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return fmt.Errorf("%w: %w", errProvider, err)
	}
	if info.Subject != subject {
		return fmt.Errorf("%w: it describes another person", errIdentity)
	}
	stated := map[string]json.RawMessage{}
	if err := info.Claims(&stated); err != nil {
		return fmt.Errorf("%w: %w", errIdentity, err)
	}
	maps.DeleteFunc(stated, isNull)
	if claims["email"] == nil { // what the token verifies is no address of the endpoint
		delete(claims, "email_verified")
	}
	if claims["email"] != nil && string(claims["email"]) != string(stated["email"]) { // another address is verified
		delete(stated, "email_verified")
	}
	for name, value := range stated {
		if claims[name] == nil {
			claims[name] = value
		}
	}
	return nil
}

// nameOf is a person's name in records: an address of mail that the provider has verified, or
// the name that the person has chosen with the subject, which nobody else has.
func nameOf(subject string, claims map[string]json.RawMessage) string {
	if mail := verifiedMail(claims); mail != "" {
		return mail
	}
	if name := textOf(claims["preferred_username"]); name != "" {
		return name + " (" + subject + ")"
	}
	return subject
}

// verifiedMail is the address of mail that the provider has verified; empty: none.
func verifiedMail(claims map[string]json.RawMessage) string {
	if !isTrue(claims["email_verified"]) {
		return ""
	}
	return textOf(claims["email"])
}

func textOf(claim json.RawMessage) (s string) {
	_ = json.Unmarshal(claim, &s)
	return s
}

// isTrue reports whether a claim is true. Cognito and Apple state truth as a string.
func isTrue(claim json.RawMessage) bool { return strings.Trim(string(claim), `"`) == "true" }

// isNull reports whether a claim is stated without a value, which says as little as no claim.
func isNull(_ string, claim json.RawMessage) bool { return string(claim) == "null" }

// groupsOf reads a claim that is a list of names, or one name.
func groupsOf(claim json.RawMessage) []string {
	var groups []string
	var one string
	if json.Unmarshal(claim, &groups) != nil {
		if json.Unmarshal(claim, &one) != nil {
			return nil
		}
		groups = []string{one}
	}
	return slices.DeleteFunc(groups, func(group string) bool { return group == "" })
}
