// Package access has authentication, permissions and the audit log. The context has the [Actor]. Every operation must call
// [Check] or [Audit.Change] first. Without an actor everything is denied. A [Guard] authenticates HTTP requests by a password,
// a passkey, a one-time link, a token, a signature, or an OpenID Connect provider. People, tokens, links, browsers, hooks and
// the log are rows of package state; of secrets only hashes are stored, except those of hooks.
//
// Start reading in guard.go: Guard.Wrap has a request from its connection to its handler. What it uses:
//
//	guard.go     the order in which a request is checked, the largest body by default, how often a long request is checked again
//	identify.go  who sends a request: a token, a signed-in browser or a signature; which requests count as forged by another
//	             site; how many bodies are read at once before it is known who sends them
//	actor.go     whether an actor has a permission (Check), what a denial says, and of which teams lists show something
//	roles.go     what each role permits, for one team or for all
//	audit.go     that nothing is changed without an entry in the audit log, and how often the same denial is recorded; event.go:
//	             how long the texts of an entry are; events.go: how many entries a page has
//	signin.go    how long a browser stays signed in, how many browsers may be, the answer to a refused request, and the pages of
//	             sign-in (login.html); cookie.go: the names and attributes of cookies
//	account.go   sign-in by a password, and how many of one network are checked at once; the use of invitations; changes of one's
//	             own account, and how recent the sign-in has to be for them
//	password.go  the shortest and the longest password, how it is hashed, and how many are computed at once
//	passkeys.go  how long the use of a passkey may take, and how many passkeys a person may have
//	failures.go  after how many failures a network or a name has to wait, and how many are recorded; quota.go: how limits count,
//	             by rate and by what is under way
//	oidc.go      which roles people get by their groups and addresses of mail at a provider of sign-ins, and how long such a
//	             sign-in is good; oidc_pages.go: how long a person may take at the provider
//	people.go    who may invite people and give them roles, how long an invitation and a recovery link are good, and what a
//	             revocation ends
//	tokens.go    how long a token is good by default, who may give which roles and groups, and what a token permits if its owner
//	             has fewer
//	link.go      how long a one-time link is good, whom it signs in, and to which running server it leads
//	hooks.go     who may add a hook, and with which role its calls act
//	visit.go     the address of a client behind proxies, the names that the server may be called by, and when a credential may be
//	             sent without https; body.go: how slowly the body of a request may come
//	secret.go    how secrets and ids are made; dashboard_path.go: the address of a session's page in the dashboard
package access
