package config

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxNesting limits the nesting of values, because the parser is recursive.
const maxNesting = 50

// parse returns the root of the file's one document, or the reason why there is none. Of several documents it returns the
// first one and a problem.
func (s *source) parse() (root ast.Node, problem *Problem) {
	refuse := func(at place, format string, args ...any) (ast.Node, *Problem) {
		f := s.problem(at, "", format, args...)
		return nil, &f
	}
	// A file can have any content. A panic of the parser, a library, must be reported as a problem
	// of the file, not end the program.
	defer func() {
		if r := recover(); r != nil {
			root, problem = refuse(place{}, "is not valid YAML, in a way that the parser cannot name; write it more plainly")
		}
	}()
	if at, deep := tooDeep(lexer.Tokenize(s.text)); deep {
		return refuse(at, "values lie in one another more than %d deep here; write them flatter", maxNesting)
	}
	file, err := parser.ParseBytes([]byte(s.text), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return refuse(s.syntax(err))
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType || doc.Body.Type() == ast.CommentType {
			continue
		}
		if root != nil {
			_, problem = refuse(startOf(doc.Body), "a second document starts here; a file has one document: remove this one, or move it "+
				"into a separate file")
			return root, problem
		}
		root = doc.Body
	}
	if root == nil || root.Type() == ast.NullType {
		return refuse(place{}, "is empty; write the document into it, starting with `version: 1`")
	}
	return root, nil
}

// tooDeep finds values that are nested deeper than any file needs, by brackets or by markers on one
// line. Deeper indentation is limited by the file's size: n levels take n*n/2 characters.
func tooDeep(tokens token.Tokens) (place, bool) {
	brackets, markers, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			markers, line = 0, t.Position.Line
		}
		switch t.Type { //nolint:exhaustive // The others do not nest.
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(brackets-1, 0)
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			if brackets == 0 {
				markers++
			}
		}
		if brackets > maxNesting || markers > maxNesting {
			return placeOf(t), true
		}
	}
	return place{}, false
}

// syntax rewrites the parser's error for readers who do not know the parser.
func (s *source) syntax(err error) (at place, format string, text string) {
	var positioned yaml.Error
	if !errors.As(err, &positioned) || positioned.GetToken() == nil {
		return place{}, "is not valid YAML: %s", err.Error()
	}
	if at, quote, ok := runawayQuote(lexer.Tokenize(s.text)); ok {
		return at, "is not valid YAML: the text that starts with %s here includes fields below it; add the closing quote", quote
	}
	at = placeOf(positioned.GetToken())
	message := positioned.GetMessage()
	for _, known := range syntaxWords {
		if strings.Contains(message, known.parser) {
			return at, "is not valid YAML: %s", known.ours
		}
	}
	return at, "is not valid YAML: %s", message
}

// runawayQuote finds quoted text that includes the fields below it. If a closing quote is missing,
// the text continues to the next opening one, and the parser reports an error far behind it.
func runawayQuote(tokens token.Tokens) (at place, quote string, found bool) {
	for _, t := range tokens {
		quoted := t.Type == token.DoubleQuoteType || t.Type == token.SingleQuoteType
		text := strings.TrimSpace(t.Origin)
		if quoted && strings.Contains(text, "\n") && strings.Contains(text, ": ") {
			return placeOf(t), text[:1], true
		}
	}
	return place{}, "", false
}

var syntaxWords = []struct{ parser, ours string }{
	{"character '\t'", "a tab cannot indent; use spaces"},
	{"tab character", "a tab cannot indent; use spaces"},
	{"mapping value is not allowed", "a second `name: value` begins on this line, or in the text that it starts; check the " +
		"indentation, or put text that has a colon in quotes"},
	{"map key-value is pre-defined", "something follows the value that already ended here; put the whole text in quotes"},
	{"value is not allowed in this context", "this fits nothing above it; indent it like the lines that it belongs to"},
	{"non-map value is specified", "`name: value` was expected; is the colon missing, or the space after it?"},
	{"',' or ']' must be specified", "the list that starts with [ does not end; a comma or ] is missing before this"},
	{"',' or '}' must be specified", "the mapping that starts with { does not end; a comma or } is missing before this"},
	{"end character of double-quoted", `the text that starts with " does not end; add the closing quote`},
	{"end character of single-quoted", "the text that starts with ' does not end; add the closing quote, and write ' inside the " +
		"text as ''"},
	{"is a reserved character", "text cannot start with this character; put it in quotes"},
	{"unknown escape character", `no such \ sequence; write \\ for a backslash, or use single quotes`},
	{"undefined alias name", "text cannot start with *; put it in quotes"},
	{"undefined anchor value", "text cannot start with &; put it in quotes"},
	{"invalid key for this map", "a list or a mapping cannot be a name; write `name: value`"},
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{line: max(t.Position.Line, 1), column: max(t.Position.Column, 1)}
}

// startOf is the position where a value begins for readers: a block mapping begins with its first
// name, not with that name's colon.
func startOf(n ast.Node) place {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return placeOf(n.Values[0].Key.GetToken())
		}
	case *ast.MappingValueNode:
		return placeOf(n.Key.GetToken())
	}
	return placeOf(n.GetToken())
}

// textOf is a scalar as it is written, without quotes and folding.
func textOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	}
	return n.GetToken().Value
}

func clip(s string) string { return cut(s, 60) }

// cut is a text up to a number of characters.
func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
