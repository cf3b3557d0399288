package service

import (
	"slices"
	"sync/atomic"

	"github.com/maestro-hive/maestro/internal/secrets"
)

// masks are the agents whose secrets are masked, newest first. Only the main loop adds to
// them.
type masks struct{ agents atomic.Pointer[[]Agents] }

// Mask replaces the secrets of all worker files loaded so far.
func (m *masks) Mask(text string) string {
	for _, a := range *m.agents.Load() {
		text = a.Mask(text)
	}
	return text
}

// add adds the secrets of new agents. Agents before them are kept if they have other
// secrets: running work may still contain these.
func (m *masks) add(newest Agents) {
	all, known := []Agents{newest}, newest.Secrets().Secrets()
	if before := m.agents.Load(); before != nil {
		for _, a := range *before {
			older := a.Secrets().Secrets()
			if slices.ContainsFunc(older, func(s secrets.Secret) bool { return !slices.Contains(known, s) }) {
				all, known = append(all, a), append(known, older...)
			}
		}
	}
	m.agents.Store(&all)
}
