package web

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
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
	g := drawn(spec.Phase{Name: "design"}, spec.Phase{Name: "api", Needs: []string{"design"}}, spec.Phase{Name: "ui", Needs: []string{"design"}},
		spec.Phase{Name: "test", Needs: []string{"api", "ui", "design", "absent"}})
	require.Len(t, g.Edges, 5)
	require.Equal(t, g.Nodes[1].X, g.Nodes[2].X)
	require.NotEqual(t, g.Nodes[1].Y, g.Nodes[2].Y)
	require.Equal(t, g.Nodes[0].X+2*(g.Nodes[1].X-g.Nodes[0].X), g.Nodes[3].X)
	require.Empty(t, drawn().Nodes)
}

func TestACycleIsDrawnWithoutItsLines(t *testing.T) {
	t.Parallel()
	g := drawn(spec.Phase{Name: "a"}, spec.Phase{Name: "b", Needs: []string{"a", "c"}}, spec.Phase{Name: "c", Needs: []string{"b"}}, spec.Phase{Name: "d", Needs: []string{"d"}})
	require.Len(t, g.Nodes, 4)
	require.Len(t, g.Edges, 1)
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

func TestTheBarOfABudget(t *testing.T) {
	t.Parallel()
	row := budgetRow("session", terminal.Number, 100, 50, 10, 20)
	require.Equal(t, BudgetRow{Scope: "session", Cap: "100", Left: "20", Parts: []BudgetPart{
		{Class: "spent", Key: "spent-key", Text: "50 spent", Width: 50},
		{Class: "unsettled", Key: "solid ask", Text: "10 unsettled", From: 50, Width: 10},
		{Class: "reserved", Key: "active", Text: "20 reserved", From: 60, Width: 20},
	}}, row)
	require.Equal(t, "spent near", budgetRow("session", terminal.Number, 100, 80, 0, 0).Parts[0].Class)
	over := budgetRow("session", terminal.Number, 100, 150, 0, 50)
	require.Equal(t, "spent over", over.Parts[0].Class)
	require.InDelta(t, 75, over.Parts[0].Width, .01)
	require.Equal(t, "0", over.Left)
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func TestAnAxisIsLinearWhereWorkIsDone(t *testing.T) {
	t.Parallel()
	a := newAxis(noon, after(100*time.Second), []Bar{{from: noon, to: after(100 * time.Second)}})
	require.InDelta(t, 25, a.x(after(25*time.Second)), .01)
	require.Zero(t, a.x(after(-time.Hour)))
	require.InDelta(t, 100, a.x(after(time.Hour)), .01)
	require.Len(t, a, 1)
}

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

func TestAnAxisRises(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(2))
	for range 300 {
		bars := []Bar{{from: noon, to: noon}}
		for range random.Intn(8) {
			from := after(time.Duration(random.Int63n(int64(72 * time.Hour))))
			bars = append(bars, Bar{from: from, to: from.Add(time.Duration(random.Int63n(int64(time.Hour)))), Wait: random.Intn(2) == 0})
		}
		a := newAxis(noon, after(time.Hour), bars)
		last := -1.0
		for d := time.Duration(0); d < 73*time.Hour; d += 90 * time.Minute {
			x := a.x(after(d))
			require.GreaterOrEqual(t, x, last)
			require.LessOrEqual(t, x, 100.001)
			last = x
		}
		require.LessOrEqual(t, len(a.ticks()), 16)
	}
}
