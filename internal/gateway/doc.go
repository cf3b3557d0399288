// Package gateway passes the calls of agent programs on to the providers of their models. A
// program has a token instead of a key. Each call is reserved before it is made and settled
// from the answer as it passes; provider failures before the first byte are waited out.
//
// A request waits in the gateway, without a byte in between, for at most [Options.Patience]:
// for the limits of its provider, and while the provider refuses calls or cannot be reached.
// Claude Code, Codex and Gemini CLI wait longer for the first byte of an answer.
package gateway
