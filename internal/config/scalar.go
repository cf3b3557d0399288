package config

import (
	"encoding"
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// fromYAML is what types implement that read the YAML text of a scalar.
type fromYAML interface{ UnmarshalYAML(text []byte) error }

func isText(v reflect.Value) bool {
	switch v.Addr().Interface().(type) {
	case fromYAML, encoding.TextUnmarshaler:
		return true
	}
	return false
}

func isScalar(k reflect.Kind) bool {
	return k == reflect.String || k == reflect.Bool || k >= reflect.Int && k <= reflect.Float64
}

// wholeNumber has no leading zeros, which other readers take for octal.
var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9_]*)$`)

// exactNumber tells whether a number is written as JSON writes it, and is small
// enough to stay what it is as a floating-point number.
func exactNumber(text string) bool {
	number := strings.ReplaceAll(text, "_", "")
	if !json.Valid([]byte(number)) {
		return false
	}
	f, err := strconv.ParseFloat(number, 64)
	return err == nil && math.Abs(f) <= 1<<53
}

// scalar fills in a value that is one word, number or text.
func (d *decoder) scalar(node ast.Node, into reflect.Value, path string, at place) {
	switch node.(type) {
	case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode, *ast.MergeKeyNode:
	default:
		d.add(at, path, "must be %s, not %s", wanted(into), describe(node))
		return
	}
	if s, ok := node.(*ast.StringNode); ok && s.Token.Type == token.StringType && strings.Contains(s.Value, ": ") {
		d.add(at, path, "holds a `: `, as if two fields ran together; put a comma or a new line between them, or the text in quotes")
		return
	}
	switch target := into.Addr().Interface().(type) {
	case fromYAML:
		text := textOf(node)
		if isQuoted(node) {
			text = strconv.Quote(text)
		}
		if err := target.UnmarshalYAML([]byte(text)); err != nil {
			d.add(at, path, "%s", visible(err.Error()))
		}
		return
	case encoding.TextUnmarshaler:
		if err := target.UnmarshalText([]byte(textOf(node))); err != nil {
			d.add(at, path, "%s", visible(err.Error()))
		}
		return
	}
	d.basic(node, into, path, at)
}

// basic fills in a value of one of Go's own types.
func (d *decoder) basic(node ast.Node, into reflect.Value, path string, at place) {
	text := textOf(node)
	number := strings.ReplaceAll(text, "_", "")
	ok := false
	switch kind := into.Kind(); {
	case kind == reflect.String:
		d.text(node, into, path, at)
		return
	case kind == reflect.Bool:
		var b *ast.BoolNode
		if b, ok = node.(*ast.BoolNode); ok {
			into.SetBool(b.Value)
		}
	case isQuoted(node):
	case into.CanInt() && wholeNumber.MatchString(text):
		n, err := strconv.ParseInt(number, 10, into.Type().Bits())
		into.SetInt(n)
		ok = err == nil
	case into.CanUint() && wholeNumber.MatchString(text):
		n, err := strconv.ParseUint(number, 10, into.Type().Bits())
		into.SetUint(n)
		ok = err == nil
	case into.CanFloat() && !strings.ContainsAny(text, "xXpPiInN"):
		f, err := strconv.ParseFloat(number, into.Type().Bits())
		into.SetFloat(f)
		ok = err == nil
	}
	if !ok && isQuoted(node) && wholeNumber.MatchString(text) {
		d.add(at, path, "must be a number, not text; take the quotes away")
	} else if !ok {
		d.add(at, path, "must be %s, not %s", wanted(into), describe(node))
	}
}

// text fills in a string. In a list or a mapping of names, numbers and true and
// false are taken as they are written, as arguments of programs want them;
// elsewhere they are likely to be slips.
func (d *decoder) text(node ast.Node, into reflect.Value, path string, at place) {
	switch node.(type) {
	case *ast.StringNode, *ast.LiteralNode, *ast.MergeKeyNode:
	default:
		if !strings.HasSuffix(path, "]") {
			d.add(at, path, "must be text, not %s; put it in quotes: %q", describe(node), clip(textOf(node)))
			return
		}
	}
	into.SetString(textOf(node))
}

func isQuoted(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		return true
	}
	return false
}

// wanted says what a value of a type looks like in a file.
func wanted(v reflect.Value) string {
	switch {
	case isText(v):
		return "a single value"
	case v.Kind() == reflect.Bool:
		return "true or false"
	case v.Kind() == reflect.String:
		return "text"
	case v.CanFloat():
		return "a number, like 0.8"
	}
	return "a whole number, like 3"
}
