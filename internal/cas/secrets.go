package cas

import "github.com/maestro-hive/maestro/internal/secrets"

func holdsSecret(p string) error {
	return &RefusedError{p, "contains one of the worker's secrets, possibly encoded; remove it, and read the secret from the environment instead"}
}

// checkNames refuses a path or a link's target that holds a secret.
func checkNames(s *secrets.Set, p, target string) error {
	if s.In(p) || s.In(target) {
		return holdsSecret(s.Mask(p))
	}
	return nil
}
