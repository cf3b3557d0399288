package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/maestro-hive/maestro/internal/team"
)

// maxValues bounds what a file's aliases may expand to.
const maxValues = 100_000

// decoder fills a Go value from a file and collects everything that does not
// fit. Struct fields are known by their yaml tags. An explicit zero in a numeric
// field tagged omitempty is a fault: there, zero means that the file leaves the
// field out, and its default would silently take the place of what was written.
type decoder struct {
	src *source
	// places says where the value of each YAMLPath is.
	places map[string]place
	faults []Fault
	// broken lists the paths on which nothing more is to be said: what is
	// wrong below them follows from a fault that is already reported.
	broken []string

	anchors map[string]ast.Node
	open    map[string]bool // the anchors being expanded
	values  int
}

// kind is a kind of file: its name in messages, and fields at the top of it that
// the other kinds do not have.
type kind struct {
	name  string
	marks []string
}

var (
	teamFile   = kind{"a team file", []string{"personas", "phases"}}
	workerFile = kind{"a worker file", []string{"agents", "caches", "sandbox"}}
)

// decode parses a source into a T, a file of one kind and not the other. Where
// the decoder has faults, the T holds what did fit.
func decode[T any](src *source, want, other kind) (T, *decoder) {
	var out T
	d := &decoder{
		src: src, places: map[string]place{"$": {1, 1}},
		anchors: map[string]ast.Node{}, open: map[string]bool{},
	}
	root, fault := src.parse()
	if fault != nil {
		d.faults = append(d.faults, *fault)
		d.broken = append(d.broken, "$")
		return out, d
	}
	if has(root, other.marks) && !has(root, want.marks) {
		d.add(place{}, "$", "is %s where %s is needed; name the other file", other.name, want.name)
		return out, d
	}
	ast.Walk(anchorCollector{d}, root)
	d.value(root, reflect.ValueOf(&out).Elem(), "$", startOf(root))
	return out, d
}

// has tells whether a mapping has one of the fields.
func has(root ast.Node, names []string) bool {
	rows, ok := root.(ast.MapNode)
	if !ok {
		return false
	}
	for row := rows.MapRange(); row.Next(); {
		if name, ok := keyName(row.Key()); ok && slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// add reports what is wrong at a path, on which nothing more will be said.
func (d *decoder) add(at place, path, format string, args ...any) {
	d.faults = append(d.faults, d.src.fault(at, path, format, args...))
	d.broken = append(d.broken, path)
}

// addFaults reports semantic faults, except those that follow from what is
// already reported.
func (d *decoder) addFaults(faults []team.Fault) {
	broken := slices.Clone(d.broken)
	for _, f := range faults {
		if !slices.ContainsFunc(broken, func(b string) bool { return within(f.Path, b) }) {
			d.faults = append(d.faults, d.src.fault(d.locate(f.Path), f.Path, "%s", f.Message))
		}
	}
}

// within tells whether a path is another or lies below it.
func within(path, above string) bool {
	rest, ok := strings.CutPrefix(path, above)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// locate finds a path's value in the file, or that of the nearest one above it.
func (d *decoder) locate(path string) place {
	for {
		if at, ok := d.places[path]; ok {
			return at
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return place{}
		}
		path = path[:cut]
	}
}

type anchorCollector struct{ d *decoder }

// Visit remembers anchors by name. A name that is given twice is a fault.
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

// value fills into from a node. at is where faults on the value are shown.
func (d *decoder) value(node ast.Node, into reflect.Value, path string, at place) {
	if !d.spend(at) {
		return
	}
	d.places[path] = at
	switch n := node.(type) {
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		d.open[name] = true
		d.value(n.Value, into, path, at)
		delete(d.open, name)
		return
	case *ast.AliasNode:
		d.alias(n, path, at, func(target ast.Node) { d.value(target, into, path, at) })
		return
	case *ast.TagNode:
		d.add(at, path, "has a tag (%s), which has no meaning here; leave it out", clip(n.Start.Value))
		return
	case *ast.NullNode:
		d.add(at, path, "has no value; give it one, or leave it out")
		return
	case nil:
		d.add(at, path, "has no value; give it one, or leave it out")
		return
	}
	switch {
	case into.Kind() == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.value(node, into.Elem(), path, at)
	case isText(into) || isScalar(into.Kind()):
		d.scalar(node, into, path, at)
	case into.Kind() == reflect.Struct:
		d.structure(node, into, path, at)
	case into.Kind() == reflect.Map:
		d.mapping(node, into, path, at)
	case into.Kind() == reflect.Slice:
		d.list(node, into, path, at)
	case into.Kind() == reflect.Interface:
		d.anything(node, into, path, at)
	default:
		panic(fmt.Sprintf("config: %s has a type that no file can fill: %s", path, into.Type()))
	}
}

// spend counts a value and tells whether there may be another.
func (d *decoder) spend(at place) bool {
	d.values++
	if d.values == maxValues+1 {
		d.add(at, "$", "the file has more than %d values, its aliases expanded; write less", maxValues)
	}
	return d.values <= maxValues
}

// alias hands the node that an alias stands for to use.
func (d *decoder) alias(n *ast.AliasNode, path string, at place, use func(ast.Node)) {
	name := n.Value.GetToken().Value
	target, ok := d.anchors[name]
	switch {
	case !ok:
		known := slices.Sorted(maps.Keys(d.anchors))
		d.add(at, path, "the alias *%s has no anchor &%s%s", clip(name), clip(name), team.DidYouMean(name, known))
	case d.open[name]:
		d.add(at, path, "the alias *%s lies inside its own anchor; write the value out", clip(name))
	default:
		d.open[name] = true
		use(target)
		delete(d.open, name)
	}
}

// entry is a field of a mapping as the file has it.
type entry struct {
	name  string
	key   *token.Token
	value ast.Node
}

// at is where faults on the entry's value are shown: at its name, if the value
// begins elsewhere or has no look of its own.
func (e entry) at() place {
	switch e.value.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode, *ast.AliasNode, *ast.TagNode:
		return placeOf(e.value.GetToken())
	}
	return placeOf(e.key)
}

// entries lists the fields of a mapping, merged ones (<<) last and only where
// they are not given. Names given twice are faults.
func (d *decoder) entries(node ast.Node, path string) []entry {
	rows, ok := node.(ast.MapNode)
	if !ok {
		return nil
	}
	var own, merged []entry
	first := map[string]place{}
	for row := rows.MapRange(); row.Next(); {
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
			d.add(placeOf(key), team.FieldPath(path, name), "is given twice; it is already on line %d: leave one out", before.line)
			continue
		}
		first[name] = placeOf(key)
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

// keyName is the text of a mapping's key, if it is one that may be a name.
func keyName(key ast.MapKeyNode) (string, bool) {
	switch key := key.(type) {
	case *ast.StringNode:
		return key.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return key.GetToken().Value, true
	}
	return "", false
}

// merge lists what a merge key (<<) brings in.
func (d *decoder) merge(node ast.Node, path string) []entry {
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

func (d *decoder) structure(node ast.Node, into reflect.Value, path string, at place) {
	fields, names := fieldsOf(into.Type())
	if _, ok := node.(ast.MapNode); !ok {
		d.add(at, path, "must be a mapping with fields such as %s, not %s", strings.Join(names[:min(3, len(names))], ", "), describe(node))
		return
	}
	for _, e := range d.entries(node, path) {
		below := team.FieldPath(path, e.name)
		index, ok := fields[e.name]
		if !ok {
			d.unknown(e, path, names)
			continue
		}
		d.value(e.value, into.Field(index), below, e.at())
		d.explicitZero(into, index, below, e)
	}
}

// unknown reports a field that the struct does not have. The field that was
// probably meant is then not reported as missing.
func (d *decoder) unknown(e entry, path string, names []string) {
	meant := team.Nearest(e.name, names)
	for _, word := range synonyms[strings.ToLower(e.name)] {
		if slices.Contains(names, word) {
			meant = word
			break
		}
	}
	if meant != "" {
		d.add(placeOf(e.key), team.FieldPath(path, e.name), "unknown field; did you mean %q?", meant)
		d.broken = append(d.broken, team.FieldPath(path, meant))
		return
	}
	d.add(placeOf(e.key), team.FieldPath(path, e.name), "unknown field; known here: %s", strings.Join(names, ", "))
}

// synonyms are the words that other tools' files have for our fields.
var synonyms = map[string][]string{
	"depends_on": {"needs"}, "dependencies": {"needs"}, "after": {"needs"}, "requires": {"needs"},
	"prompt": {"instructions"}, "system_prompt": {"instructions"}, "prompt_file": {"instructions_file"},
	"retries": {"attempts", "retry"}, "max_attempts": {"attempts"}, "stages": {"phases"}, "steps": {"phases"},
	"agents": {"personas"}, "roles": {"personas"}, "members": {"personas"},
	"outputs": {"produces", "keep"}, "artifacts": {"produces", "keep"}, "exclude": {"ignore"}, "tests": {"checks"},
	"command": {"argv"}, "cmd": {"argv"}, "args": {"argv"}, "run": {"argv"}, "type": {"kind"}, "environment": {"env"},
	"max_tokens": {"tokens", "max_output_tokens"}, "cost": {"usd"}, "id": {"name"},
	"api_key": {"api_key_env"}, "endpoint": {"base_url"}, "url": {"base_url", "url_env"}, "max_iterations": {"max_turns"},
	"token": {"token_env"}, "email": {"email_env"}, "user": {"email_env"}, "secret": {"secret_env"}, "custom_fields": {"fields"},
	"issue_type": {"type"}, "project_key": {"project"}, "priority": {"priorities"}, "component": {"components"},
}

func (d *decoder) explicitZero(into reflect.Value, index int, path string, e entry) {
	field := into.Field(index)
	_, options, _ := strings.Cut(into.Type().Field(index).Tag.Get("yaml"), ",")
	numeric := field.CanInt() || field.CanUint() || field.CanFloat()
	if options == "omitempty" && numeric && field.IsZero() && !slices.Contains(d.broken, path) {
		d.add(e.at(), path, "is 0; give it a value above 0, or leave it out for the default")
	}
}

func (d *decoder) mapping(node ast.Node, into reflect.Value, path string, at place) {
	if _, ok := node.(ast.MapNode); !ok {
		d.add(at, path, "must be a mapping, not %s; write each entry as `name: ...`", describe(node))
		return
	}
	into.Set(reflect.MakeMap(into.Type()))
	for _, e := range d.entries(node, path) {
		v := reflect.New(into.Type().Elem()).Elem()
		d.value(e.value, v, team.FieldPath(path, e.name), e.at())
		into.SetMapIndex(reflect.ValueOf(e.name).Convert(into.Type().Key()), v)
	}
}

func (d *decoder) list(node ast.Node, into reflect.Value, path string, at place) {
	items, ok := node.(*ast.SequenceNode)
	if !ok {
		hint := "; start each entry with `- `"
		if s, ok := node.(*ast.StringNode); ok && len(s.Value) <= 60 {
			hint = "; write [" + s.Value + "]"
		}
		d.add(at, path, "must be a list, not %s%s", describe(node), hint)
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(items.Values), len(items.Values)))
	for i, item := range items.Values {
		d.value(item, into.Index(i), team.ItemPath(path, i), startOf(item))
	}
}

// anything keeps what a field holds whose form is not checked here, as the plain
// data that JSON's reader would make of it.
func (d *decoder) anything(node ast.Node, into reflect.Value, path string, at place) {
	var v reflect.Value
	switch node.(type) {
	case ast.MapNode:
		v = reflect.ValueOf(&map[string]any{}).Elem()
	case *ast.SequenceNode:
		v = reflect.ValueOf(&[]any{}).Elem()
	case *ast.BoolNode:
		v = reflect.ValueOf(new(bool)).Elem()
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		if number := textOf(node); !exactNumber(number) {
			d.add(at, path, "is %s, which not every reader takes for the same number; put it in quotes", clip(number))
			return
		}
		v = reflect.ValueOf(new(float64)).Elem()
	default:
		v = reflect.ValueOf(new(string)).Elem()
	}
	d.value(node, v, path, at)
	into.Set(v)
}

// fieldsOf maps the yaml names of a struct's fields to their indexes, and lists
// them in the struct's order.
func fieldsOf(t reflect.Type) (fields map[string]int, names []string) {
	fields = map[string]int{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		if name != "" && name != "-" {
			fields[name] = i
			names = append(names, name)
		}
	}
	return fields, names
}
