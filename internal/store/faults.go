package store

import (
	"errors"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// faultsIn separates the faults in an error from the rest, which says that the store cannot be
// used.
func faultsIn(err error) (faults []cas.Fault, rest error) {
	var joined interface{ Unwrap() []error }
	var f *cas.Fault
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &f) && (errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound)) && !isJoined(err):
		return []cas.Fault{*f}, nil
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
	_, ok := err.(interface{ Unwrap() []error }) // do not unwrap
	return ok
}

// withNeed adds to a fault what needs the missing file.
func withNeed(f cas.Fault, by string) cas.Fault {
	if by != "" && !strings.Contains(f.What, by) {
		f.What = strings.TrimPrefix(f.What+"; ", "; ") + "needed by " + by
	}
	return f
}

// repaired adds to a fault how its file was repaired.
func repaired(err error, how string) error {
	var f *cas.Fault
	if !errors.As(err, &f) {
		return err
	}
	mended := *f
	mended.Repaired = how
	return &mended
}
