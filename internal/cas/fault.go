package cas

// Fault is something in the store that is damaged or missing. As an error it is
// [session.ErrCorrupt] or [session.ErrNotFound].
type Fault struct {
	// Path is the file, relative to the store.
	Path string `json:"path"`
	// What says what is wrong with it.
	What string `json:"what"`
	// Quarantined is where the file was moved to, relative to the store; empty
	// if there was nothing to move.
	Quarantined string `json:"quarantined,omitempty"`

	// Repaired says how the file was written again; empty: it was not.
	Repaired string `json:"repaired,omitempty"`

	// Kind is [session.ErrCorrupt] or [session.ErrNotFound].
	Kind error `json:"-"`
}

// Error names the file, what is wrong, and where the file is now.
func (f *Fault) Error() string {
	s := f.Path + ": " + f.Kind.Error()
	if f.What != "" {
		s += ": " + f.What
	}
	if f.Quarantined != "" {
		s += "; moved to " + f.Quarantined
	}
	if f.Repaired != "" {
		s += "; repaired: " + f.Repaired
	}
	return s
}

// Unwrap returns session.ErrCorrupt or session.ErrNotFound.
func (f *Fault) Unwrap() error { return f.Kind }
