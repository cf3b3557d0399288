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
package llm
