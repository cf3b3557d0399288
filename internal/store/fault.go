package store

import (
	"errors"
	"strings"

	"github.com/maestro-hive/maestro/internal/session"
)

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

	kind error
}

// Error names the file, what is wrong, and where the file is now.
func (f *Fault) Error() string {
	s := f.Path + ": " + f.kind.Error()
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
func (f *Fault) Unwrap() error { return f.kind }

// faultsIn takes the faults out of an error; what remains is one of using the
// store.
func faultsIn(err error) (faults []Fault, rest error) {
	var joined interface{ Unwrap() []error }
	var f *Fault
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &f) && (errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound)) && !isJoined(err):
		return []Fault{*f}, nil
	case errors.As(err, &joined):
		var others []error
		for _, e := range joined.Unwrap() {
			found, other := faultsIn(e)
			faults = append(faults, found...)
			others = append(others, other)
		}
		return faults, errors.Join(others...)
	}
	return nil, err
}

func isJoined(err error) bool {
	_, ok := err.(interface{ Unwrap() []error }) // only this very error
	return ok
}

// need says that something that is missing is needed elsewhere.
func (f Fault) need(by string) Fault {
	if by != "" && !strings.Contains(f.What, by) {
		f.What = strings.TrimPrefix(f.What+"; ", "; ") + "needed by " + by
	}
	return f
}

// repaired says of a fault how its file was written again.
func repaired(err error, how string) error {
	var f *Fault
	if !errors.As(err, &f) {
		return err
	}
	mended := *f
	mended.Repaired = how
	return &mended
}
