package chart_test

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/web/chart"
)

func TestStepsAreRightOfWhatTheyNeed(t *testing.T) {
	t.Parallel()
	g := chart.Layout([]chart.Step{{"design", nil}, {"api", []string{"design"}}, {"ui", []string{"design"}}, {"test", []string{"api", "ui", "design", "absent"}}})
	require.Equal(t, []int{0, 1, 1, 2}, columns(g))
	require.Len(t, g.Edges, 5)
	require.NotEqual(t, g.Nodes[1].Y, g.Nodes[2].Y)
	require.Equal(t, g.Nodes[0].X+2*(g.Nodes[1].X-g.Nodes[0].X), g.Nodes[3].X)
	require.Empty(t, chart.Layout(nil).Nodes)
}

func columns(g chart.Graph) []int {
	var all []int
	for _, n := range g.Nodes {
		all = append(all, n.Column)
	}
	return all
}

func TestACycleIsDrawnWithoutItsLines(t *testing.T) {
	t.Parallel()
	g := chart.Layout([]chart.Step{{"a", nil}, {"b", []string{"a", "c"}}, {"c", []string{"b"}}, {"d", []string{"d"}}})
	require.Len(t, g.Nodes, 4)
	require.Len(t, g.Edges, 1)
}

// Nodes of any graph lie apart, inside of the picture.
func TestNodesDoNotOverlap(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(1))
	for range 200 {
		var steps []chart.Step
		for i := range 1 + random.Intn(24) {
			s := chart.Step{Name: fmt.Sprint(i)}
			for j := range i {
				if random.Intn(3) == 0 {
					s.Needs = append(s.Needs, fmt.Sprint(j))
				}
			}
			steps = append(steps, s)
		}
		g := chart.Layout(steps)
		for i, a := range g.Nodes {
			require.GreaterOrEqual(t, a.X, 0)
			require.LessOrEqual(t, a.X+chart.NodeWidth, g.Width)
			require.GreaterOrEqual(t, a.Y, 0)
			require.LessOrEqual(t, a.Y+chart.NodeHeight, g.Height)
			for _, b := range g.Nodes[:i] {
				require.True(t, a.X != b.X || a.Y >= b.Y+chart.NodeHeight || b.Y >= a.Y+chart.NodeHeight, "%v %v", a, b)
			}
		}
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	b := chart.Budget(50, 10, 20, 100)
	require.Equal(t, chart.BudgetBar{Spent: chart.Share{Width: 50}, Unsettled: chart.Share{From: 50, Width: 10}, Reserved: chart.Share{From: 60, Width: 20}, Used: 60}, b)
	over := chart.Budget(150, 0, 50, 100)
	require.InDelta(t, 75, over.Spent.Width, .01)
	require.InDelta(t, 150, over.Used, .01)
	require.Zero(t, chart.Budget(0, 0, 0, 0).Spent.Width)
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func TestAnAxisIsLinearWhereWorkIsDone(t *testing.T) {
	t.Parallel()
	a := chart.NewAxis(noon, after(100*time.Second), []chart.Span{{From: after(0), To: after(100 * time.Second), Busy: true}})
	require.InDelta(t, 25, a.X(after(25*time.Second)), .01)
	require.Zero(t, a.X(after(-time.Hour)))
	require.InDelta(t, 100, a.X(after(time.Hour)), .01)
	require.Empty(t, a.Gaps)
}

// Two minutes of work beside two days of waiting can both be seen.
func TestLongWaitsAreShortened(t *testing.T) {
	t.Parallel()
	a := chart.NewAxis(noon, after(48*time.Hour+2*time.Minute), []chart.Span{
		{From: noon, To: after(time.Minute), Busy: true},
		{From: after(time.Minute), To: after(48*time.Hour + time.Minute)},
		{From: after(48*time.Hour + time.Minute), To: after(48*time.Hour + 2*time.Minute), Busy: true},
	})
	require.Len(t, a.Gaps, 1)
	require.InDelta(t, 47, a.X(after(time.Minute)), .01)
	require.InDelta(t, 53, a.X(after(48*time.Hour+time.Minute)), .01)
	gaps := 0
	for _, tick := range a.Ticks(6) {
		if tick.Gap {
			gaps++
			require.Equal(t, 48*time.Hour, tick.Long)
		}
	}
	require.Equal(t, 1, gaps)
}

func TestAnAxisRises(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(2))
	for range 300 {
		var spans []chart.Span
		for range random.Intn(8) {
			from := after(time.Duration(random.Int63n(int64(72 * time.Hour))))
			spans = append(spans, chart.Span{From: from, To: from.Add(time.Duration(random.Int63n(int64(time.Hour)))), Busy: random.Intn(2) == 0})
		}
		a := chart.NewAxis(noon, after(time.Hour), spans)
		last := -1.0
		for at := a.From; !at.After(a.To); at = at.Add(a.To.Sub(a.From)/50 + 1) {
			x := a.X(at)
			require.GreaterOrEqual(t, x, last)
			require.LessOrEqual(t, x, 100.001)
			last = x
		}
		require.LessOrEqual(t, len(a.Ticks(6)), 16)
	}
}
