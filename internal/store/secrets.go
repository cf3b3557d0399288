package store

import "github.com/maestro-hive/maestro/internal/secrets"

func holdsSecret(p string) error {
	return &RefusedError{p, "holds the value of one of the worker's secrets, perhaps encoded; take it out, and read it from the environment where it is needed"}
}

// checkNames refuses a path or a link's target that holds a secret.
func checkNames(s *secrets.Set, p, target string) error {
	if s.In(p) || s.In(target) {
		return holdsSecret(s.Mask(p))
	}
	return nil
}
