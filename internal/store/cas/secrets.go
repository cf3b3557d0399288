package cas

import (
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/secrets"
)

func holdsSecret(p, name string) error {
	return &RefusedError{p, fmt.Sprintf("contains a secret of the worker, the value of %s, possibly encoded; remove it, and read "+
		"it from the environment instead", name)}
}

// checkNames refuses a path or a link's target that holds a secret.
func checkNames(s *secrets.Set, p, target string) error {
	for _, text := range []string{p, target} {
		if name, found := s.Find([]byte(text)); found {
			return holdsSecret(s.Mask(p), name)
		}
	}
	return nil
}
