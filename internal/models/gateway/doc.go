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
// Start reading in call.go, which has a call until it is sent; upstream.go sends it, passes the answer on, and books it: whole,
// or broken off.
//
//	call.go             which requests are refused, when a stored answer is given out again, how a call waits for its place
//	                    and its budget, for how long it is tried again, and how long it waits between tries
//	upstream.go         when an answer makes no progress, is too large or exceeds its budget, the largest answer that is
//	                    stored, what a broken call costs, and which failures are reported to the breaker
//	gateway.go          the defaults of Options: how long a call waits, how long a provider may be silent, the largest
//	                    request and answer; how many requests of an attempt are in flight, and where its token is valid
//	provider_limits.go  how requests_per_minute, tokens_per_minute and concurrent of a provider hold, for all attempts of the
//	                    worker together
//	free.go             requests that cost nothing, like lists of models, how long a provider may take for them, and how it
//	                    counts a prompt
//	headers.go          which headers and query parameters are passed on
//	transcript.go       what the transcript has of the calls, and that an item is written once
package gateway
