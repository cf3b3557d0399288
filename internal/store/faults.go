package store

import (
	"errors"
	"strings"

	"github.com/maestro-hive/maestro/internal/store/cas"
)

// faultsIn separates the faults in an error from the rest, which says that the store cannot be
// used.
func faultsIn(err error) (faults []cas.Fault, rest error) {
	joined, isJoined := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if isJoined {
		var others []error
		for _, e := range joined.Unwrap() {
			found, other := faultsIn(e)
			faults = append(faults, found...)
			others = append(others, other)
		}
		return faults, errors.Join(others...)
	}
	if f, ok := errors.AsType[*cas.Fault](err); ok {
		return []cas.Fault{*f}, nil
	}
	return nil, err
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
	f, ok := errors.AsType[*cas.Fault](err)
	if !ok {
		return err
	}
	mended := *f
	mended.Repaired = how
	return &mended
}
