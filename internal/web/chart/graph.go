package chart

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The size of a node of the graph and the space around it, in pixels.
const (
	NodeWidth  = 198
	NodeHeight = 108
	columnGap  = 36
	rowGap     = 20
	bendHeight = 12
	margin     = 6
	sweeps     = 6
)

// Step is a phase and those that it needs.
type Step struct {
	Name  string
	Needs []string
}

// Graph is a drawing of steps in columns: each is right of all that it needs.
type Graph struct {
	Width, Height int
	Nodes         []Node
	Edges         []Edge
}

// Node is a step, in the order of the steps.
type Node struct {
	Name         string
	X, Y, Column int
}

// Edge is a line from a step to one that needs it.
type Edge struct {
	From, To string
	// Path is the line and Head the arrow at its end, as SVG has paths.
	Path, Head string
}

// place is a node, or a bend of a line that passes a column.
type place struct {
	step   int // -1: a bend
	column int
	y      float64
	before []*place
	after  []*place
}

func (p *place) height() float64 {
	if p.step < 0 {
		return bendHeight
	}
	return NodeHeight
}

// Layout places the steps. Needs that name no step are left out, and so are lines of a cycle.
func Layout(steps []Step) Graph {
	columns := columnsOf(steps)
	nodes, lines, layers := places(steps, columns)
	order(layers)
	height := stack(layers)
	g := Graph{Height: int(height) + 2*margin, Nodes: make([]Node, 0, len(steps)), Edges: make([]Edge, 0, len(lines))}
	g.Width = len(layers)*NodeWidth + max(len(layers)-1, 0)*columnGap + 2*margin
	for i, n := range nodes {
		g.Nodes = append(g.Nodes, Node{Name: steps[i].Name, X: left(n.column), Y: margin + int(n.y), Column: n.column})
	}
	for _, l := range lines {
		first, last := l[0], l[len(l)-1]
		path, head := draw(l)
		g.Edges = append(g.Edges, Edge{From: steps[first.step].Name, To: steps[last.step].Name, Path: path, Head: head})
	}
	return g
}

// columnsOf gives each step the column after the last one that it needs. What a cycle
// leaves over is in the column after all others.
func columnsOf(steps []Step) []int {
	at := map[string]int{}
	for i, s := range steps {
		at[s.Name] = i
	}
	columns := make([]int, len(steps))
	placed := make([]bool, len(steps))
	last := 0
	for range steps {
		progress := false
		for i, s := range steps {
			if placed[i] {
				continue
			}
			column, ready := 0, true
			for _, need := range s.Needs {
				if j, known := at[need]; known && j != i {
					ready = ready && placed[j]
					column = max(column, columns[j]+1)
				}
			}
			if ready {
				columns[i], placed[i], progress = column, true, true
				last = max(last, column+1)
			}
		}
		if !progress {
			break
		}
	}
	for i := range steps {
		if !placed[i] {
			columns[i] = last
		}
	}
	return columns
}

// places makes the nodes, the lines between them with a bend in each column that they pass,
// and the columns of both.
func places(steps []Step, columns []int) (nodes []*place, lines [][]*place, layers [][]*place) {
	at := map[string]*place{}
	add := func(p *place) *place {
		for len(layers) <= p.column {
			layers = append(layers, nil)
		}
		layers[p.column] = append(layers[p.column], p)
		return p
	}
	for i, s := range steps {
		n := add(&place{step: i, column: columns[i]})
		nodes, at[s.Name] = append(nodes, n), n
	}
	for i, s := range steps {
		for _, need := range s.Needs {
			from, to := at[need], nodes[i]
			if from == nil || from.column >= to.column {
				continue
			}
			line := []*place{from}
			for c := from.column + 1; c < to.column; c++ {
				line = append(line, add(&place{step: -1, column: c}))
			}
			line = append(line, to)
			for j := 1; j < len(line); j++ {
				line[j-1].after = append(line[j-1].after, line[j])
				line[j].before = append(line[j].before, line[j-1])
			}
			lines = append(lines, line)
		}
	}
	return nodes, lines, layers
}

// order sorts each column by where the neighbours of its places are, so that few lines cross.
func order(layers [][]*place) {
	rank := map[*place]float64{}
	number := func(layer []*place) {
		for i, p := range layer {
			rank[p] = float64(i)
		}
	}
	for _, layer := range layers {
		number(layer)
	}
	by := func(layer []*place, neighbours func(*place) []*place) {
		weight := map[*place]float64{}
		for _, p := range layer {
			weight[p] = rank[p]
			if near := neighbours(p); len(near) > 0 {
				weight[p] = 0
				for _, n := range near {
					weight[p] += rank[n] / float64(len(near))
				}
			}
		}
		slices.SortStableFunc(layer, func(a, b *place) int { return cmp.Compare(weight[a], weight[b]) })
		number(layer)
	}
	for i := range sweeps {
		if i%2 == 0 {
			for _, layer := range layers {
				by(layer, func(p *place) []*place { return p.before })
			}
			continue
		}
		for _, layer := range slices.Backward(layers) {
			by(layer, func(p *place) []*place { return p.after })
		}
	}
}

// stack sets the heights: columns are centred. It returns the height of all.
func stack(layers [][]*place) float64 {
	total := 0.0
	heights := make([]float64, len(layers))
	for i, layer := range layers {
		for j, p := range layer {
			if j > 0 {
				heights[i] += rowGap
			}
			p.y = heights[i]
			heights[i] += p.height()
		}
		total = max(total, heights[i])
	}
	for i, layer := range layers {
		for _, p := range layer {
			p.y += (total - heights[i]) / 2
		}
	}
	return total
}

func left(column int) int { return margin + column*(NodeWidth+columnGap) }

// draw makes a line through its places, and its head.
func draw(line []*place) (path, head string) {
	var b strings.Builder
	x, y := left(line[0].column)+NodeWidth, middle(line[0])
	fmt.Fprintf(&b, "M%d %d", x, y)
	for _, p := range line[1:] {
		toX, toY := left(p.column), middle(p)
		if p.step >= 0 {
			toX -= 6 // the head
		}
		half := (toX - x) / 2
		fmt.Fprintf(&b, "C%d %d %d %d %d %d", x+half, y, toX-half, toY, toX, toY)
		x, y = toX, toY
		if p.step < 0 {
			x += NodeWidth
			fmt.Fprintf(&b, "H%d", x)
		}
	}
	return b.String(), fmt.Sprintf("M%d %dl-1 -4l8 4l-8 4z", x, y)
}

func middle(p *place) int { return margin + int(p.y+p.height()/2) }
