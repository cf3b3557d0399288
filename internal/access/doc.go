// Package access has authentication, permissions and the audit log. The context has the
// [Actor]. Every operation must call [Check] or [Audit.Change] first. Without an actor
// everything is denied. A [Guard] authenticates HTTP requests by a one-time link, a token, a
// signature, or an OpenID Connect provider.
//
//	access/links.json       one-time links, by the hashes of their codes
//	access/hooks.json       hooks, with their secrets
//	access/browsers.json    who is signed in with a browser, by the hashes of their cookies
//	access/servers.json     at which addresses servers of the store run
package access
