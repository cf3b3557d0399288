package team

import "errors"

// What the store answers besides plain input/output errors, which mean that its
// directory cannot be used at the moment and may be usable again later.
var (
	// ErrNotFound: the store has no such document or blob.
	ErrNotFound = errors.New("not found")
	// ErrCorrupt: what the store has is not what was written. It has been
	// moved to the store's quarantine.
	ErrCorrupt = errors.New("corrupt")
	// ErrFenced: a later incarnation of the session owns the assignment now.
	ErrFenced = errors.New("a later incarnation of the session owns this assignment")
)
