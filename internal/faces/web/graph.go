package web

import (
	"fmt"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// Graph is the picture of a session's phases, in columns: each is right of all that it needs.
type Graph struct {
	Width, Height int
	Nodes         []GraphNode
	Edges         []GraphEdge
}

// GraphNode is a phase in it.
type GraphNode struct {
	X, Y int
	Look
	Phase session.PhaseStatus
	URL   string
	// Name fits into the node, and Label has all that it shows.
	Name, Label, Figures string
	Marks                []GraphMark
	// More counts the personas that have no mark.
	More int
}

// GraphMark is the state of a persona in a node.
type GraphMark struct {
	X int
	Look
	Persona string
}

// GraphEdge is a line between phases, and the arrow at its end, as SVG has paths. Done: the first of both has its work.
type GraphEdge struct {
	Path, Head string
	Done       bool
}

// The size of a node and the space around it, in pixels.
const (
	nodeWidth  = 198
	nodeHeight = 108
	columnGap  = 36
	rowGap     = 20
	margin     = 6
)

const (
	// nameWidth is how many characters of a name fit into a node.
	nameWidth = 18
	maxMarks  = 7
)

// withNeeds are the phases of a session with those that they need. Where the team is not known, phases follow one another.
func withNeeds(s session.Status, team []spec.Phase) []spec.Phase {
	needs := map[string][]string{}
	for _, p := range team {
		needs[p.Name] = p.Needs
	}
	all := make([]spec.Phase, len(s.Phases))
	for i, p := range s.Phases {
		all[i] = spec.Phase{Name: p.Name, Needs: needs[p.Name]}
		if len(team) == 0 && i > 0 {
			all[i].Needs = []string{s.Phases[i-1].Name}
		}
	}
	return all
}

// graphOf draws the phases of a session. Columns are centred, and their phases in the order of the team file.
func graphOf(s session.Status, team []spec.Phase) Graph {
	phases := withNeeds(s, team)
	column := spec.Depths(phases)
	sizes, most, last := map[int]int{}, 0, 0
	for _, c := range column {
		sizes[c]++
		most, last = max(most, sizes[c]), max(last, c)
	}
	g := Graph{Width: 2*margin + (last+1)*(nodeWidth+columnGap) - columnGap, Height: 2*margin + most*(nodeHeight+rowGap) - rowGap}
	placed, nodes := map[int]int{}, map[string]GraphNode{}
	for _, p := range s.Phases {
		c := column[p.Name]
		n := nodeOf(s.Session, p)
		n.X = margin + c*(nodeWidth+columnGap)
		n.Y = margin + (most-sizes[c])*(nodeHeight+rowGap)/2 + placed[c]*(nodeHeight+rowGap)
		placed[c]++
		g.Nodes, nodes[p.Name] = append(g.Nodes, n), n
	}
	for _, p := range phases {
		for _, need := range p.Needs {
			if from, known := nodes[need]; known && column[need] < column[p.Name] {
				g.Edges = append(g.Edges, edge(from, nodes[p.Name]))
			}
		}
	}
	return g
}

// nodeOf is a phase without its place.
func nodeOf(sessionID string, p session.PhaseStatus) GraphNode {
	n := GraphNode{
		Look: lookOf(p.Status), Phase: p, URL: phaseURL(sessionID, p.Name), Name: safetext.Clip(p.Name, nameWidth), Figures: figures(p),
		More: max(len(p.Assignments)-maxMarks, 0),
	}
	n.Label = strings.Join(nonEmpty(p.Name, n.Word, n.Figures, personas(p)), ", ")
	for i, a := range p.Assignments[:len(p.Assignments)-n.More] {
		n.Marks = append(n.Marks, GraphMark{X: 20 + 20*i, Look: lookOf(a), Persona: a.Persona})
	}
	return n
}

// edge is the line from a phase to one that needs it.
func edge(from, to GraphNode) GraphEdge {
	const head = 6
	x, y, toX, toY := from.X+nodeWidth, from.Y+nodeHeight/2, to.X-head, to.Y+nodeHeight/2
	half := (toX - x) / 2
	return GraphEdge{
		Path: fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y, x+half, y, toX-half, toY, toX, toY),
		Head: fmt.Sprintf("M%d %dl-1 -4l8 4l-8 4z", toX, toY), Done: from.Phase.Status.Done(),
	}
}

// figures are a phase's elapsed time, attempts and cost, as far as there are any.
func figures(p session.PhaseStatus) string {
	attempts := 0
	var spent, tries string
	usage := (&session.Status{Phases: []session.PhaseStatus{p}}).Sum()
	for _, a := range p.Assignments {
		attempts += a.Attempts
	}
	switch {
	case usage.CostUSD > 0:
		spent = dollars(usage.CostUSD)
	case usage.Tokens() > 0:
		spent = terminal.Short(usage.Tokens()) + " tok"
	}
	if attempts > len(p.Assignments) {
		tries = textfmt.Count(attempts, "attempt")
	}
	return strings.Join(nonEmpty(seconds(p.Seconds), tries, spent), " · ")
}

// personas says how many of a phase's personas are done.
func personas(p session.PhaseStatus) string {
	done := 0
	for _, a := range p.Assignments {
		if a.Status.Done() {
			done++
		}
	}
	return fmt.Sprintf("%d of %s done", done, textfmt.Count(len(p.Assignments), "persona"))
}

func nonEmpty(parts ...string) []string {
	return slices.DeleteFunc(parts, func(p string) bool { return p == "" })
}
