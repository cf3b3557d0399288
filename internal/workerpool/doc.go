// Package workerpool tells who can work for a store: what its live workers offer, who asks
// Temporal for the work that waits, how the breakers of their agents stand, and what is
// missing for a team. It goes by the store where Temporal cannot be reached, and changes
// nothing.
package workerpool
