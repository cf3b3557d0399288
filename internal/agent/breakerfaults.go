package agent

import (
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/team"
)

// The bounds of a breaker's settings.
const (
	maxThreshold = 1000
	maxProbes    = 10
)

func (v *validator) breaker(path string, b team.Breaker) {
	if b.Name != "" {
		if err := team.CheckName(b.Name); err != nil {
			v.add(path+".name", "%s", err.Error())
		}
	}
	v.number(path+".threshold", int64(b.Threshold), 1, maxThreshold)
	v.number(path+".probes", int64(b.Probes), 1, maxProbes)
	v.duration(path+".cooldown", b.Cooldown)
	v.duration(path+".max_cooldown", b.MaxCooldown)
	if b.MaxCooldown > 0 && b.Cooldown > b.MaxCooldown {
		v.add(path+".max_cooldown", "is %s, below cooldown: %s", b.MaxCooldown, b.Cooldown)
	}
	var known []string
	for _, c := range team.Categories() {
		known = append(known, string(c))
	}
	for i, c := range b.Counts {
		switch {
		case !team.ValidCategory(c):
			v.add(team.ItemPath(path+".counts", i), "%q is no failure category%s; there are %s",
				team.Shorten(string(c), 80), team.DidYouMean(string(c), known), strings.Join(known, ", "))
		case slices.Contains(b.Counts[:i], c):
			v.add(team.ItemPath(path+".counts", i), "lists %q a second time; leave it out", c)
		}
	}
}

// sharedBreakers holds agents that share a breaker to one way to set it.
func (v *validator) sharedBreakers() {
	agents := map[string]string{}   // by breaker
	breakers := map[string]string{} // by breaker in lower case
	for _, name := range slices.Sorted(maps.Keys(v.config.Agents)) {
		path := team.FieldPath("$.agents", name) + ".breaker"
		b := v.config.Agents[name].Breaker.For(name)
		lower := strings.ToLower(b.Name)
		if other, ok := agents[b.Name]; ok {
			if !same(v.config.Agents[other].Breaker.For(other), b) {
				v.add(path, "differs from that of agent %s, with which %s shares breaker %s; set both alike, or give one another name", other, name, b.Name)
			}
		} else if before, ok := breakers[lower]; ok {
			v.add(path+".name", "%s differs from breaker %s only by case, which file names may not tell apart; rename one", b.Name, before)
		}
		agents[b.Name], breakers[lower] = name, b.Name
	}
}

func same(a, b team.Breaker) bool {
	sorted := func(c []team.Category) []team.Category {
		c = slices.Clone(c)
		slices.Sort(c)
		return c
	}
	return a.Threshold == b.Threshold && a.Cooldown == b.Cooldown && a.MaxCooldown == b.MaxCooldown && a.Probes == b.Probes &&
		(a.Counts == nil) == (b.Counts == nil) && slices.Equal(sorted(a.Counts), sorted(b.Counts))
}
