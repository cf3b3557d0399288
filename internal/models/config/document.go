package config

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const (
	// maxValues limits the number of values after a file's aliases are expanded.
	maxValues = 100_000
	// maxProblems limits how many problems of a file are collected.
	maxProblems = 500
)

// extensionPrefix begins the names of fields at the top of a file that are ignored. Anchors can stand in them, as in files of
// Compose and OpenAPI.
const extensionPrefix = "x-"

// document is a file's content as plain data, with the position of each value in the file, and the
// file's problems.
type document struct {
	src *source
	// root consists of map[string]any, []any, string, bool and json.Number, without the values that
	// have a problem.
	root any
	// places and texts have the position of the value of each YAMLPath, and the text of a scalar.
	places   map[string]place
	texts    map[string]string
	problems []Problem
	// broken lists the paths below which no further problem is reported: it would follow from one
	// that is already reported.
	broken map[string]bool
	// oversized: a list or a mapping has more entries than are allowed.
	oversized bool

	anchors map[string]ast.Node
	open    map[string]bool // the anchors being expanded
	values  int
}

// format is a format of files.
type format struct {
	name string
	// marks are fields at the top of such a file that other formats do not have.
	marks []string
	rules func() rules
}

var (
	teamFile   = format{"a team file", []string{"personas", "phases"}, teamRules}
	workerFile = format{"a worker file", []string{"agents", "caches", "isolation"}, workerRules}
)

// decode reads a source as a T, in the one format and not the other, and reports what the format's
// schema rejects. If there are problems, the T has the values without problems.
func decode[T any](src *source, want, other format) (T, *document) {
	var out T
	if text := ForeignDocument(src.text); text != "" {
		d := &document{src: src, broken: map[string]bool{}}
		d.add(place{}, "$", "%s", text)
		return out, d
	}
	d := read(src)
	top, _ := d.root.(map[string]any)
	has := func(name string) bool { _, ok := top[name]; return ok }
	if d.broken["$"] {
		d.root = nil
		return out, d
	}
	if text := foreign(top); text != "" {
		d.add(place{}, "$", "%s", text)
		return out, d
	}
	if slices.ContainsFunc(other.marks, has) && !slices.ContainsFunc(want.marks, has) {
		d.add(place{}, "$", "is %s where %s is needed; name the other file", other.name, want.name)
		return out, d
	}
	d.fill(d.root, reflect.ValueOf(&out).Elem(), "$")
	d.check(want.rules())
	return out, d
}

// addProblems adds the problems that find returns for the content, except those that follow from
// problems that are already reported.
func (d *document) addProblems(find func() []spec.Problem) {
	if d.oversized {
		return
	}
	problems := slices.DeleteFunc(find(), func(f spec.Problem) bool { return d.settled(f.Path) })
	for _, f := range problems {
		d.add(d.locate(f.Path), f.Path, "%s", visible(f.Message))
	}
}

// read parses a source into plain data.
func read(src *source) *document {
	d := &document{
		src: src, places: map[string]place{"$": {1, 1}}, texts: map[string]string{}, broken: map[string]bool{},
		anchors: map[string]ast.Node{}, open: map[string]bool{},
	}
	root, problem := src.parse()
	if problem != nil {
		d.problems = append(d.problems, *problem)
		d.broken["$"] = true
	}
	if root == nil {
		return d
	}
	ast.Walk(anchorCollector{d}, root)
	d.root = d.value(root, "$", startOf(root))
	return d
}

// add reports a problem at a path; later problems on the same path are dropped.
func (d *document) add(at place, path, format string, args ...any) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, d.src.problem(at, path, format, args...))
	}
	d.broken[path] = true
}

// report adds a problem at a path's position, unless it follows from one that is already reported.
func (d *document) report(path, format string, args ...any) {
	if !d.settled(path) {
		d.add(d.locate(path), path, format, args...)
	}
}

// settled reports whether a problem of a path, or of one above it, is already reported.
func (d *document) settled(path string) bool {
	for !d.broken[path] {
		if path = above(path); path == "" {
			return false
		}
	}
	return true
}

// above is a path without its last element.
func above(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

// locate finds the position of a path's value in the file, or that of the nearest one above it.
func (d *document) locate(path string) place {
	for {
		if at, ok := d.places[path]; ok {
			return at
		}
		if path = above(path); path == "" {
			return place{}
		}
	}
}

type anchorCollector struct{ d *document }

// Visit records anchors by name. A name that is defined twice is a problem.
func (c anchorCollector) Visit(n ast.Node) ast.Visitor {
	anchor, ok := n.(*ast.AnchorNode)
	if !ok {
		return c
	}
	name := anchor.Name.GetToken().Value
	if _, taken := c.d.anchors[name]; taken {
		c.d.add(placeOf(anchor.GetToken()), "", "the anchor &%s is given twice; rename one", clip(name))
	}
	c.d.anchors[name] = anchor.Value
	return c
}

// value converts a node to plain data. at is the position of problems with it.
func (d *document) value(node ast.Node, path string, at place) any {
	if !d.spend(at) {
		return nil
	}
	d.places[path] = at
	switch n := node.(type) {
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		d.open[name] = true
		defer delete(d.open, name)
		return d.value(n.Value, path, at)
	case *ast.AliasNode:
		var v any
		d.alias(n, path, at, func(target ast.Node) { v = d.value(target, path, at) })
		return v
	case *ast.TagNode:
		d.add(at, path, "has a tag (%s), which has no meaning here; leave it out", clip(n.Start.Value))
		return nil
	case ast.MapNode:
		return d.mapping(node, path)
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, item := range n.Values {
			if list[i] = d.value(item, spec.ItemPath(path, i), startOf(item)); list[i] == nil {
				list[i] = "" // its problem is already reported
			}
		}
		return list
	case *ast.NullNode, nil:
		d.add(at, path, "has no value; give it one, or leave it out")
		return nil
	}
	return d.scalar(node, path, at)
}

func (d *document) mapping(node ast.Node, path string) any {
	values := map[string]any{}
	for _, e := range d.entries(node, path) {
		if path == "$" && strings.HasPrefix(e.name, extensionPrefix) {
			continue
		}
		if v := d.value(e.value, spec.FieldPath(path, e.name), e.at()); v != nil {
			values[e.name] = v
		}
	}
	return values
}

// scalar is a string, number or boolean. A number that readers interpret differently is a string.
func (d *document) scalar(node ast.Node, path string, at place) any {
	text := textOf(node)
	d.texts[path] = text
	switch n := node.(type) {
	case *ast.BoolNode:
		return n.Value
	case *ast.StringNode:
		if n.Token.Type == token.StringType && strings.Contains(n.Value, ": ") {
			d.add(at, path, "holds a `: `, as if two fields ran together; put a comma or a new line between them, or the text in quotes")
			return nil
		}
		// The parser takes a number with an exponent and without a point for text. YAML does not.
		if n.Token.Type == token.StringType && exponent.MatchString(text) {
			if number, ok := plainNumber(text); ok {
				return json.Number(number)
			}
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		if number, ok := plainNumber(text); ok {
			return json.Number(number)
		}
	}
	return text
}

// exponent matches the numbers with an exponent of YAML 1.2, section 10.3.2.
var exponent = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$`)

// plainNumber is a number as JSON writes it. ok is false for a number that other readers take for
// another number, or for text: 0o17, 007, or one beyond the integers that a floating-point number
// represents exactly.
func plainNumber(text string) (number string, ok bool) {
	text = strings.ReplaceAll(text, "_", "")
	digits := strings.TrimLeft(text, "+-")
	octal := len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "0123456789") == ""
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || octal || strings.ContainsAny(text, "xXpPiInNoObB") || f > 1<<53 || f < -1<<53 {
		return "", false
	}
	if len(text) < 40 && strings.Trim(text, "0123456789.-") == "" && json.Valid([]byte(text)) {
		return text, true
	}
	return strconv.FormatFloat(f, 'f', -1, 64), true
}

// spend counts a value and reports whether the limit permits another.
func (d *document) spend(at place) bool {
	d.values++
	if d.values == maxValues+1 {
		d.add(at, "$", "the file has more than %d values, its aliases expanded; write less", maxValues)
	}
	return d.values <= maxValues
}

// alias calls use with the node that an alias refers to.
func (d *document) alias(n *ast.AliasNode, path string, at place, use func(ast.Node)) {
	name := n.Value.GetToken().Value
	target, ok := d.anchors[name]
	switch {
	case !ok:
		known := slices.Sorted(maps.Keys(d.anchors))
		d.add(at, path, "the alias *%s has no anchor &%s%s", clip(name), clip(name), textfmt.DidYouMean(name, known))
	case d.open[name]:
		d.add(at, path, "the alias *%s is inside its own anchor; write the value out", clip(name))
	default:
		d.open[name] = true
		use(target)
		delete(d.open, name)
	}
}

// entry is a field of a mapping in the file.
type entry struct {
	name  string
	key   *token.Token
	value ast.Node
}

// at is the position of problems with the entry's value: that of its name, if the value begins
// elsewhere or has no text of its own.
func (e entry) at() place {
	switch e.value.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode, *ast.AliasNode,
		*ast.TagNode:
		return placeOf(e.value.GetToken())
	}
	return placeOf(e.key)
}

// entries lists the fields of a mapping. Merged ones (<<) come last, and only if the mapping does
// not have them. Names that are given twice are problems.
func (d *document) entries(node ast.Node, path string) []entry {
	var own, merged []entry
	first := map[string]place{}
	for row := node.(ast.MapNode).MapRange(); row.Next(); {
		if row.Key().IsMergeKey() {
			merged = append(merged, d.merge(row.Value(), path)...)
			continue
		}
		name, ok := keyName(row.Key())
		key := row.Key().GetToken()
		if !ok {
			d.add(placeOf(key), path, "has %q where a name belongs; write `name: value`", clip(key.Value))
			continue
		}
		if before, taken := first[name]; taken {
			d.add(placeOf(key), spec.FieldPath(path, name), "is given twice; it is already on line %d: leave one out", before.line)
			continue
		}
		first[name] = placeOf(key)
		d.places[spec.FieldPath(path, name)+keyMark] = placeOf(key)
		own = append(own, entry{name, key, row.Value()})
	}
	for _, e := range merged {
		if _, taken := first[e.name]; !taken {
			first[e.name] = placeOf(e.key)
			own = append(own, e)
		}
	}
	return own
}

// keyMark ends the path of a field's name, as opposed to its value.
const keyMark = "~"

// keyName is the text of a mapping's key, if it can be a name.
func keyName(key ast.MapKeyNode) (string, bool) {
	switch key := key.(type) {
	case *ast.StringNode:
		return key.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return key.GetToken().Value, true
	}
	return "", false
}

// merge lists the fields that a merge key (<<) adds.
func (d *document) merge(node ast.Node, path string) []entry {
	var found []entry
	if !d.spend(startOf(node)) {
		return nil
	}
	switch n := node.(type) {
	case *ast.AliasNode:
		d.alias(n, path, placeOf(n.GetToken()), func(target ast.Node) { found = d.merge(target, path) })
	case *ast.AnchorNode:
		return d.merge(n.Value, path)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			found = append(found, d.merge(v, path)...)
		}
	case ast.MapNode:
		found = d.entries(node, path)
	default:
		d.add(startOf(node), path, "<< merges mappings; give it an alias of one, like `<<: *defaults`")
	}
	for range found { // an entry costs again wherever it is merged
		if !d.spend(startOf(node)) {
			return nil
		}
	}
	return found
}
