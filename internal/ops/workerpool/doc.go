// Package workerpool shows who can work for a store: what its live workers offer, who polls
// the task queues, the states of their agents' breakers, and what is
// missing for a team. It uses the store if Temporal cannot be reached, and changes
// nothing.
package workerpool
