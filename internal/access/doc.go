// Package access has authentication, permissions and the audit log. The context has the
// [Actor]. Every operation must call [Check] or [Audit.Change] first. Without an actor
// everything is denied. A [Guard] authenticates HTTP requests by a password, a passkey, a one-time link, a token, a
// signature, or an OpenID Connect provider. People, tokens, links, browsers, hooks and the log are rows of
// package state; of secrets only hashes are stored, except those of hooks.
package access
