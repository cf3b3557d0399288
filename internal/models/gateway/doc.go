// Package gateway passes the calls of agent programs to the providers of their models. A
// program has a token instead of a key. The cost of each call is reserved before the call and
// settled from its answer. Provider failures before the first byte are retried.
//
// A request waits in the gateway for at most [Options.Patience] before its first byte: for the
// limits of its provider, and while the provider refuses calls or cannot be reached.
// Claude Code, Codex and Gemini CLI wait longer for the first byte of an answer.
//
// A paid call asks the attempt's owner, in this order:
//
//   - [Provider].Models: what the model costs, and whether the attempt may use it;
//   - Stored of [Attempt].Calls: an answer that was paid for already;
//   - RetryAfter of [Attempt].Breaker: for how long the provider is not called;
//   - Begin of [Attempt].Calls: the reservation of the cost. It calls OnWait of the plan before it waits for other calls, which
//     gives the call's place at the provider to them.
//
// call.go has a call until it is sent; upstream.go sends it, passes the answer on, and books it: whole, or broken off.
package gateway
