package tui

import (
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// layers sorts phases so that each is in the layer after the last phase that it needs: those of one
// layer run in parallel.
func layers(phases []Phase) [][]Phase {
	var graph []spec.Phase
	for _, p := range phases {
		graph = append(graph, spec.Phase{Name: p.Name, Needs: p.Needs})
	}
	depth, out := spec.Depths(graph), make([][]Phase, len(phases)+1)
	for _, p := range phases {
		out[depth[p.Name]] = append(out[depth[p.Name]], p)
	}
	return slices.DeleteFunc(out, func(l []Phase) bool { return len(l) == 0 })
}

// after names the phases that a phase depends on, if they are not simply the previous layer.
func after(p Phase, before []Phase) string {
	if len(p.Needs) == len(before) && !slices.ContainsFunc(before, func(b Phase) bool { return !slices.Contains(p.Needs, b.Name) }) {
		return ""
	}
	if len(p.Needs) == 0 {
		return "first"
	}
	return "after " + strings.Join(p.Needs, ", ")
}

// rail is what is drawn at the left of a phase's rows to show how the work flows:
// before its name, and before what is below it.
type rail struct{ head, body string }

// slim is the body for narrow terminals.
func (r rail) slim() string { return string([]rune(r.body)[:2]) }

// rails draws the flow around the i-th of a layer's phases. first and last tell
// whether the layer is the first or the last one.
func rails(i, of int, first, last bool) rail {
	endsHere := last && i == of-1
	switch {
	case of == 1 && last:
		return rail{"", "  "}
	case of == 1:
		return rail{"", "│ "}
	case endsHere:
		return rail{"└─", "    "}
	case first && i == 0:
		return rail{"┌─", "│   "}
	}
	return rail{"├─", "│   "}
}
