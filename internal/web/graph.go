package web

import (
	"fmt"
	"strings"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/internal/web/chart"
)

// Graph is the picture of a session's phases.
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

// GraphEdge is a line between phases. Done: the first of both has its work.
type GraphEdge struct {
	chart.Edge
	Done bool
}

const (
	// nameWidth is how many characters of a name fit into a node.
	nameWidth = 18
	maxMarks  = 7
)

// needsOf are the phases that each phase needs. Where the team is not known, phases follow one
// another.
func needsOf(s session.Status, phases []spec.Phase) []chart.Step {
	needs := map[string][]string{}
	for _, p := range phases {
		needs[p.Name] = p.Needs
	}
	steps := make([]chart.Step, len(s.Phases))
	for i, p := range s.Phases {
		steps[i] = chart.Step{Name: p.Name, Needs: needs[p.Name]}
		if len(phases) == 0 && i > 0 {
			steps[i].Needs = []string{s.Phases[i-1].Name}
		}
	}
	return steps
}

// graphOf draws the phases of a session.
func graphOf(s session.Status, phases []spec.Phase) Graph {
	layout := chart.Layout(needsOf(s, phases))
	g := Graph{Width: layout.Width, Height: layout.Height}
	done := map[string]bool{}
	for i, n := range layout.Nodes {
		p := s.Phases[i]
		done[p.Name] = p.Status.Done()
		node := GraphNode{X: n.X, Y: n.Y, Look: lookOf(p.Status), Phase: p, URL: phaseURL(s.Session, p.Name), Name: safetext.Clip(p.Name, nameWidth), Figures: figures(p)}
		node.Label = strings.Join(nonEmpty(p.Name, node.Word, node.Figures, personas(p)), ", ")
		for j, a := range p.Assignments {
			if j == maxMarks && len(p.Assignments) > maxMarks {
				node.More = len(p.Assignments) - maxMarks
				break
			}
			node.Marks = append(node.Marks, GraphMark{X: 20 + 20*j, Look: lookOfAssignment(a), Persona: a.Persona})
		}
		g.Nodes = append(g.Nodes, node)
	}
	for _, e := range layout.Edges {
		g.Edges = append(g.Edges, GraphEdge{e, done[e.From]})
	}
	return g
}

// lookOfAssignment is its state's look; one that waits for a breaker says so.
func lookOfAssignment(a session.AssignmentStatus) Look {
	if a.Awaits != nil {
		return lookOf(session.WaitingForBreaker)
	}
	return lookOf(a.Status)
}

// figures are a phase's elapsed time, attempts and cost, as far as there are any.
func figures(p session.PhaseStatus) string {
	attempts := 0
	var spent string
	sum := session.Status{Phases: []session.PhaseStatus{p}}
	usage := sum.Sum()
	for _, a := range p.Assignments {
		attempts += a.Attempts
	}
	switch {
	case usage.CostUSD > 0:
		spent = dollars(usage.CostUSD)
	case usage.Tokens() > 0:
		spent = short(usage.Tokens()) + " tok"
	}
	tries := ""
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
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}
