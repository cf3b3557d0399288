package web

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// drawn is the graph of a session of phases.
func drawn(phases ...spec.Phase) Graph {
	s := session.Status{Session: "s"}
	for _, p := range phases {
		s.Phases = append(s.Phases, session.PhaseStatus{Name: p.Name})
	}
	return graphOf(s, phases)
}

func TestPhasesAreRightOfWhatTheyNeed(t *testing.T) {
	t.Parallel()
	g := drawn(spec.Phase{Name: "design"}, spec.Phase{Name: "api", Needs: []string{"design"}},
		spec.Phase{Name: "ui", Needs: []string{"design"}},
		spec.Phase{Name: "test", Needs: []string{"api", "ui", "design", "absent"}})
	require.Len(t, g.Edges, 5)
	require.Equal(t, g.Nodes[1].X, g.Nodes[2].X)
	require.NotEqual(t, g.Nodes[1].Y, g.Nodes[2].Y)
	require.Equal(t, g.Nodes[0].X+2*(g.Nodes[1].X-g.Nodes[0].X), g.Nodes[3].X)
	require.Empty(t, drawn().Nodes)
}

// Nodes of any graph lie apart, inside of the picture.
func TestNodesDoNotOverlap(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(1))
	for range 200 {
		var phases []spec.Phase
		for i := range 1 + random.Intn(24) {
			p := spec.Phase{Name: fmt.Sprint(i)}
			for j := range i {
				if random.Intn(3) == 0 {
					p.Needs = append(p.Needs, fmt.Sprint(j))
				}
			}
			phases = append(phases, p)
		}
		g := drawn(phases...)
		for i, a := range g.Nodes {
			require.GreaterOrEqual(t, a.X, 0)
			require.LessOrEqual(t, a.X+nodeWidth, g.Width)
			require.GreaterOrEqual(t, a.Y, 0)
			require.LessOrEqual(t, a.Y+nodeHeight, g.Height)
			for _, b := range g.Nodes[:i] {
				require.True(t, a.X != b.X || a.Y >= b.Y+nodeHeight || b.Y >= a.Y+nodeHeight, "%v %v", a, b)
			}
		}
	}
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

// Two minutes of work beside two days of waiting can both be seen.
func TestLongWaitsAreShortened(t *testing.T) {
	t.Parallel()
	a := newAxis(noon, after(48*time.Hour+2*time.Minute), []Bar{
		{from: noon, to: after(time.Minute)},
		{from: after(time.Minute), to: after(48*time.Hour + time.Minute), Wait: true},
		{from: after(48*time.Hour + time.Minute), to: after(48*time.Hour + 2*time.Minute)},
	})
	require.InDelta(t, 47, a.x(after(time.Minute)), 1)
	require.InDelta(t, 53, a.x(after(48*time.Hour+time.Minute)), 1)
	gaps := 0
	for _, tick := range a.ticks() {
		if tick.Gap {
			gaps++
			require.Equal(t, "⋯ 2d 0h", tick.Text)
		}
	}
	require.Equal(t, 1, gaps)
}
