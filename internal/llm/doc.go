// Package llm has a model work on an assignment's directory through tools: one
// loop for every provider. A provider is an adapter that translates one call and
// its answer; everything else happens here.
//
// # A turn
//
// The conversation so far is one request. Its answer is taken from the journal
// if an earlier execution has paid for it; else the call is reserved, made and
// settled before anything of the answer is used. Then the answer's tool calls
// are done in their order, and what they brought and did to files is kept, too.
// An execution that is started again walks the same turns: it pays for none that
// was settled, and does the tools' work of none that was kept, but puts the
// files back as they were.
//
// That works because a request is a function of the brief and of what was kept.
// Nothing else flows into one: no time, no listing, no order of a map.
//
// # Bounds
//
// Turns, time, tokens, answers that go nowhere, and the size of everything that
// is read or written are bounded, each with a failure category of its own.
//
// # Secrets
//
// Known secrets are masked in what goes to the provider and in what comes from
// it, before either is kept, shown or used. No path or link leads out of the
// directory.
package llm
