// Package simulator runs sessions against a simulated world and looks for broken
// promises. It has tests only.
//
// The workflow code, the activities, the store and the conversation with models are
// the real ones. Simulated are Temporal's delivery of activities, worker processes,
// model providers, people and time. A seed decides everything:
// the team, how long each step takes, which process dies where, when the provider
// fails, and what people answer. Virtual time comes from [testing/synctest].
//
// docs/simulator.md says how to run it and how to read a failing seed.
package simulator
