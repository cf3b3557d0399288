package agent

import (
	"slices"
	"strings"
)

// isSecretName reports whether a variable's name suggests that it contains a secret.
func isSecretName(name string) bool {
	for _, suffix := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD"} {
		if strings.HasSuffix(strings.ToUpper(name), suffix) {
			return true
		}
	}
	return false
}

// secretNames lists the variables of the worker's environment that contain secrets.
func (c Config) secretNames() []string {
	names := append(slices.Clone(c.Secrets), c.notifySecrets()...)
	add := func(env []string) {
		for _, name := range env {
			if isSecretName(name) {
				names = append(names, name)
			}
		}
	}
	for _, d := range c.Agents {
		add(d.Env)
	}
	for _, p := range c.Providers {
		if p.KeyEnv != "" {
			names = append(names, p.KeyEnv)
		}
	}
	for _, d := range c.Checks {
		add(d.Env)
	}
	for _, d := range c.Credentials {
		names = append(names, d.SecretEnv)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
