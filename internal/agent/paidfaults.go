package agent

import (
	"maps"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/team"
)

// preset checks which agent program a definition names, and that its argv leaves
// the stream to the preset.
func (v *validator) preset(path string, d Definition) {
	if d.Preset == "" {
		return
	}
	if dialectOf(d.Preset) == nil {
		v.add(path+".preset", "is %q; %s are known%s", team.Shorten(d.Preset, 80),
			strings.Join(presetNames(), ", "), team.DidYouMean(d.Preset, presetNames()))
		return
	}
	if d.Kind != KindCommand {
		v.add(path+".preset", "belongs to kind command; leave it out, or write `kind: command`")
		return
	}
	if d.MaxTurns != 0 && d.Preset != presetClaude {
		v.add(path+".max_turns", "is set, but the program of preset %s cannot be told how many turns it may take; bound it by timeout and reserve", d.Preset)
	}
	v.number(path+".max_turns", int64(d.MaxTurns), 1, maxModelTurns)
	if d.Preset == presetCodex {
		return
	}
	names := []string{"--output-format"}
	if d.Preset == presetGemini {
		names = append(names, "-o")
	}
	if format, ok := flagValue(d.Argv, names...); ok && format != "stream-json" {
		v.add(path+".argv", "sets %s to %q, but preset %s reads stream-json; leave the flag out",
			names[0], team.Shorten(format, 80), d.Preset)
	}
}

// paid checks what a definition sets aside.
func (v *validator) paid(path string, d Definition) {
	if d.Reserve != (team.Cap{}) && d.Kind != KindCommand {
		v.add(path+".reserve", "belongs to kind command, which is paid by the attempt; leave it out: each call of a model is reserved by itself")
	}
	if d.Reserve.Tokens < 0 {
		v.add(path+".reserve.tokens", "is %d; it must not be negative", d.Reserve.Tokens)
	}
	if d.Reserve.USD < 0 {
		v.add(path+".reserve.usd", "is %s; it must not be negative", d.Reserve.USD)
	}
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
		path := team.FieldPath("$.agents", name) + ".fallback"
		if _, ok := v.config.Agents[next]; !ok {
			v.add(path, "is %q, which is none of the agents%s", team.Shorten(next, 80), team.DidYouMean(next, names))
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
