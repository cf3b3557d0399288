// Package llm runs models that work on an assignment's directory through tools. There is one loop
// for all providers; package wire translates a call and its answer.
//
// # A turn
//
// Each turn sends the conversation so far as one request. If an earlier execution has paid for
// the answer, the stored one is used. Otherwise the call is reserved, made and settled
// before the answer is used. Then the tool calls in the answer are executed in order, and their
// results are stored, too. An execution that is started again repeats the same turns in a directory
// that has been filled anew: it does not pay for settled calls, and executes only those stored tool calls
// again that change files.
//
// This requires that a request depends only on the brief and on stored data, and not on the time,
// on directory listings or on map order.
//
// # Bounds
//
// Turns, time, tokens, unproductive answers, and the size of everything that is read or written
// are bounded, each with its own failure category.
//
// # Secrets
//
// Known secrets are masked in requests and answers before these are sent, stored, shown or used.
// No path or link leads out of the directory.
//
// # Files
//
// Start reading in turn.go: work does the turns of an attempt.
//
//	turn.go          how many turns there are; what follows an answer that is refused, was cut off or calls no tool; how many
//	                 of the last two, and of invalid tool calls, there may be in a row; when results are left out of a long
//	                 conversation
//	agent.go         the default bounds of turns, of an answer and of the context, how long an attempt may take, and what its
//	                 outcome has
//	answer.go        whether an answer is a stored or a new one, and how a new one is reserved and booked
//	call.go          when an answer makes no progress or exceeds its budget, the largest answer, and when a rejected request
//	                 counts as too long
//	conversation.go  on what a stored answer depends (digest), how long the next request probably is, and which results are
//	                 left out first
//	tools.go         which tools a model has; tool_calls.go: what they do, how much a result, a listing and a search may have, and
//	                 when finish names what is missing; tree.go: the largest file that is read and written, and which paths
//	                 are refused
//	text.go          the prompt; transcript.go: what the transcript has of answers, costs and tools
package llm
