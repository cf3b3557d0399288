package cas

// Fault is a damaged or missing file of the store. As an error it is [session.ErrCorrupt] or
// [session.ErrNotFound].
type Fault struct {
	// Path is the file, relative to the store.
	Path string `json:"path"`
	// What says what is wrong with it.
	What string `json:"what"`
	// MovedTo is the path to which the file was moved, relative to the store; empty if
	// nothing was moved.
	MovedTo string `json:"moved_to,omitempty"`

	// Repaired says how the file was repaired; empty: it was not.
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
	if f.MovedTo != "" {
		s += "; moved to " + f.MovedTo
	}
	if f.Repaired != "" {
		s += "; repaired: " + f.Repaired
	}
	return s
}

// Unwrap returns session.ErrCorrupt or session.ErrNotFound.
func (f *Fault) Unwrap() error { return f.Kind }
