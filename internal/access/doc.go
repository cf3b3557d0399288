// Package access decides who may do what, and keeps the audit log of who did. An [Actor]
// travels in the context; whatever changes or shows something asks [Check] or [Audit.Change]
// first. Without an actor everything is denied. A [Guard] finds out who sends a request over
// HTTP: by a one-time link, a token, or a provider of sign-ins (OpenID Connect).
//
//	audit/<date>.jsonl      the audit log of a day, by UTC: a line for each event or outcome
//	access/links.json       one-time links, by the hashes of their codes
//	access/tokens.json      tokens, by the hashes of their secrets
//	access/hooks.json       hooks, with their secrets
//	access/browsers.json    who is signed in with a browser, by the hashes of their cookies
//	access/server.json      at which address the server of the store was started last
package access
