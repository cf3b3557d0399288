package agent

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// Problems returns what is wrong with the config as it was parsed, before
// [Config.WithDefaults], beyond what the schema of worker files refuses: what depends
// on other parts of the file. It reads no file and no environment; what only they can
// tell is [New]'s to say.
func (c Config) Problems() []spec.Problem {
	v := &validator{config: c}
	v.providers()
	for _, name := range v.names("$.agents", slices.Sorted(maps.Keys(c.Agents))) {
		v.agent(spec.FieldPath("$.agents", name), c.Agents[name])
	}
	for _, name := range v.names("$.checks", slices.Sorted(maps.Keys(c.Checks))) {
		path, check := spec.FieldPath("$.checks", name), c.Checks[name]
		v.program(path+".argv", check.Argv)
		v.environment(path+".env", check.Env)
		v.knownCaches(path+".caches", check.Caches)
		v.network(path+".network", check.Network)
		for i, pattern := range check.Keep {
			if problem := spec.EmptyRange(pattern); problem != "" {
				v.add(spec.ItemPath(path+".keep", i), "%s", problem)
			}
		}
	}
	v.sharedBreakers()
	v.fallbacks()
	v.caches()
	v.mounts()
	if b := v.config.Backup; b != nil && b.To != "" {
		v.absolute("$.backup.to", b.To)
	}
	v.credentials()
	if j := c.Jira; j != nil && j.Deployment == JiraDataCenter {
		if host := hostOf(j.URL); slices.ContainsFunc(atlassianHosts, func(end string) bool { return strings.HasSuffix(host, end) }) {
			v.add("$.jira.deployment", "is datacenter, but %s is a site of Jira Cloud; write `deployment: cloud`", host)
		}
	}
	return v.problems
}

type validator struct {
	config   Config
	problems []spec.Problem
}

func (v *validator) add(path, format string, args ...any) {
	v.problems = append(v.problems, spec.Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// names problems names that differ only by case, and returns them all.
func (v *validator) names(parent string, names []string) []string {
	folded := map[string]string{}
	for _, name := range names {
		lower := strings.ToLower(name)
		if other, ok := folded[lower]; ok {
			v.add(spec.FieldPath(parent, name), "differs from %q only by case, so their file names may be the same; rename one", other)
		}
		folded[lower] = name
	}
	return names
}

func (v *validator) agent(path string, d Definition) {
	v.breaker(path, d.Breaker)
	if d.Kind == KindDelivery {
		v.delivery(path, d)
		return
	}
	v.program(path+".argv", d.Argv)
	v.environment(path+".env", d.Env)
	v.knownCaches(path+".caches", d.Caches)
	v.network(path+".network", d.Network)
	if d.WebTools && (len(d.Gateway) == 0 || d.Network.word() == room.NetworkHost) {
		v.add(path+".web_tools", "has an effect only with a gateway and a network that is not host; leave it out")
	}
	v.reached(path, d)
	if full := d.withDefaults(); d.Kind == KindModel && full.MaxOutputTokens >= full.ContextTokens {
		v.add(path+".max_output_tokens", "is %d, which leaves no room for a prompt in context_tokens: %d", full.MaxOutputTokens,
			full.ContextTokens)
	}
	if d.Prices != nil {
		v.prices(path+".prices", *d.Prices)
	}
	if d.Kind != KindModel {
		v.preset(path, d)
	}
}

func (v *validator) breaker(path string, b spec.Breaker) {
	if b.MaxCooldown > 0 && b.Cooldown > b.MaxCooldown {
		v.add(path+".breaker.max_cooldown", "is %s, below cooldown: %s", b.MaxCooldown, b.Cooldown)
	}
}

// preset checks that a program has only what its preset can use, and that its argv
// leaves the stream to the preset.
func (v *validator) preset(path string, d Definition) {
	if d.Preset == "" && d.Model != "" {
		v.add(path+".model", "belongs to kind model, and to presets; leave it out, or name a preset")
	}
	program := preset.For(d.Preset)
	if d.MaxTurns != 0 && (program == nil || !program.BoundsTurns) {
		remedy := "timeout and reserve"
		if len(d.Gateway) > 0 {
			remedy = "timeout, and by its persona's budget"
		}
		v.add(path+".max_turns", "is set, but only models and the program of preset claude can be told how many turns they may take; "+
			"bound it by %s", remedy)
	}
	if program == nil {
		return
	}
	if format, ok := preset.FlagValue(d.Argv, program.OutputFlags...); ok && format != "stream-json" {
		v.add(path+".argv", "sets %s to %q, but preset %s reads stream-json; leave the flag out", program.OutputFlags[0],
			textfmt.Shorten(format, 80), d.Preset)
	}
}

func (v *validator) program(path string, argv []string) {
	if len(argv) > 0 && strings.TrimSpace(argv[0]) == "" {
		v.add(spec.ItemPath(path, 0), "is empty; the first entry is the program")
	}
}

func (v *validator) caches() {
	set := map[string]string{}
	for _, name := range v.names("$.caches", slices.Sorted(maps.Keys(v.config.Caches))) {
		variable := v.config.Caches[name].Env
		if other, ok := set[variable]; ok && variable != "" {
			v.add(spec.FieldPath("$.caches", name)+".env", "is %s, which cache %s sets, too", variable, other)
		}
		set[variable] = name
	}
}

func (v *validator) knownCaches(path string, names []string) {
	known := slices.Sorted(maps.Keys(v.config.Caches))
	for i, name := range names {
		if !slices.Contains(known, name) {
			v.add(spec.ItemPath(path, i), "%q is not among the caches%s; define it, like `caches: {%s: {env: GOCACHE}}`",
				textfmt.Shorten(name, 80), textfmt.DidYouMean(name, known), textfmt.Shorten(name, 80))
		}
	}
}

// absolute reports whether a path is absolute and clean, and adds a problem if it is not.
func (v *validator) absolute(at, path string) bool {
	switch {
	case !filepath.IsAbs(path):
		v.add(at, "is %q, which is not an absolute path", textfmt.Shorten(path, 80))
	case filepath.Clean(path) != path:
		v.add(at, "is %q; write %s", textfmt.Shorten(path, 80), filepath.Clean(path))
	default:
		return true
	}
	return false
}

// mounts problems paths that cannot be shown in rooms.
func (v *validator) mounts() {
	for i, m := range v.config.Mounts {
		path := spec.ItemPath("$.mounts", i) + ".path"
		switch {
		case !v.absolute(path, m.Path):
		case v.config.Isolation != IsolationNone && (m.Path == "/" || room.Reserved(m.Path)):
			v.add(path, "is %s, which a room makes itself; name a path below another directory", m.Path)
		}
	}
}

// hostOf is the name of an address's host, in lower case.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// sharedBreakers holds agents that share a breaker to one way to set it.
func (v *validator) sharedBreakers() {
	agents := map[string]string{}   // by breaker
	breakers := map[string]string{} // by breaker in lower case
	for _, name := range slices.Sorted(maps.Keys(v.config.Agents)) {
		path := spec.FieldPath("$.agents", name) + ".breaker"
		b := v.config.BreakerOf(name)
		lower := strings.ToLower(b.Name)
		if other, ok := agents[b.Name]; ok {
			if !same(v.config.BreakerOf(other), b) {
				v.add(path, "differs from that of agent %s, with which %s shares breaker %s; set both alike, or give one another name", other,
					name, b.Name)
			}
		} else if before, ok := breakers[lower]; ok {
			v.add(path+".name", "%s differs from breaker %s only by case, so their file names may be the same; rename one", b.Name, before)
		}
		agents[b.Name], breakers[lower] = name, b.Name
	}
}

func same(a, b spec.Breaker) bool {
	sorted := func(c []failures.Category) []failures.Category {
		c = slices.Clone(c)
		slices.Sort(c)
		return c
	}
	return a.Threshold == b.Threshold && a.Cooldown == b.Cooldown && a.MaxCooldown == b.MaxCooldown && a.Probes == b.Probes &&
		(a.Counts == nil) == (b.Counts == nil) && slices.Equal(sorted(a.Counts), sorted(b.Counts))
}

// fallbacks checks that every fallback is another agent of the file, and that
// they lead to an end.
func (v *validator) fallbacks() {
	names := slices.Sorted(maps.Keys(v.config.Agents))
	reported := map[string]bool{}
	for _, name := range names {
		next := v.config.Agents[name].Fallback
		if next == "" {
			continue
		}
		path := spec.FieldPath("$.agents", name) + ".fallback"
		switch other, ok := v.config.Agents[next]; {
		case !ok:
			v.add(path, "is %q, which is none of the agents%s", textfmt.Shorten(next, 80), textfmt.DidYouMean(next, names))
			continue
		case other.Kind == KindDelivery:
			v.add(path, "is %q, which delivers and does no other work; name another agent", next)
			continue
		}
		if circle := v.circle(name); circle != nil && !reported[name] {
			v.add(path, "leads back to the agent itself (%s); let the last of them have no fallback", strings.Join(circle, " -> "))
			for _, member := range circle {
				reported[member] = true
			}
		}
	}
}

// circle follows the fallbacks from an agent, and returns the way if it leads
// back to it; else nil.
func (v *validator) circle(from string) []string {
	way := []string{from}
	for next := v.config.Agents[from].Fallback; next != ""; next = v.config.Agents[next].Fallback {
		if next == from {
			return append(way, next)
		}
		if slices.Contains(way, next) { // a circle of others
			return nil
		}
		way = append(way, next)
	}
	return nil
}

// gateway checks the gateway of an agent.
func (v *validator) gateway(path string, d Definition) {
	formats := map[wire.API]string{}
	for i, name := range d.Gateway {
		at := spec.ItemPath(path+".gateway", i)
		v.knownProvider(at, name)
		format := v.config.Providers[name].Format
		if other, taken := formats[format]; taken && format != "" {
			v.add(at, "has format %s, as %s has; a program is given one address of each format", format, textfmt.Shorten(other, 80))
		}
		formats[format] = name
	}
	_, unknown := formats[""]
	if program := preset.For(d.Preset); program != nil && formats[program.API] == "" && !unknown {
		v.add(path+".gateway", "has no provider of format %s, which preset %s needs; add one", program.API, d.Preset)
	}
	if d.Prices != nil {
		v.add(path+".prices", "is set, but the gateway books each call at the prices of its provider; set them at providers.%s.models",
			d.Gateway[0])
	}
	if d.Reserve != (spec.Cap{}) {
		v.add(path+".reserve", "is set, but the gateway sets aside what each call may cost; leave it out")
	}
	for i, name := range d.Env {
		if v.withheld(formats, name) {
			v.add(spec.ItemPath(path+".env", i), "is %s, which leads past the gateway or holds a key; leave it out: the gateway gives "+
				"the agent an address and a token", name)
		}
	}
}

// withheld reports whether a variable contains a key, or the address of a provider whose format
// the agent uses through the gateway.
func (v *validator) withheld(formats map[wire.API]string, name string) bool {
	for _, p := range v.config.Providers {
		if p.KeyEnv == name {
			return true
		}
	}
	for format := range formats {
		if its := format.Programs(); name == its.BaseURL || name == its.Key || slices.Contains(its.Others, name) {
			return true
		}
	}
	return false
}
