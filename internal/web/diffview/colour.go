package diffview

import (
	"path"
	"strings"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

// token is a coloured part of a line: up to a byte, with a class of the stylesheet.
type token struct {
	to    int
	class string
}

// The bounds of what is coloured: texts that are larger, and lines that are longer, stay plain.
const (
	maxColoured     = 256 << 10
	maxColouredLine = 1000
)

// Colourer colours lines. It stops once its time is over, because an agent can write text that
// takes a lexer very long.
type Colourer struct {
	Now      func() time.Time
	Deadline time.Time
}

// Lexer finds the language of a file by its name; nil for none.
func lexer(name string) chroma.Lexer {
	l := lexers.Match(path.Base(name))
	if l == nil {
		return nil
	}
	return chroma.Coalesce(l)
}

// colour returns the tokens of each line of a text; nil: it stays plain.
func (c Colourer) colour(l chroma.Lexer, lines []string) [][]token {
	if l == nil || len(lines) == 0 || !c.Now().Before(c.Deadline) {
		return nil
	}
	size := 0
	for _, line := range lines {
		if size += len(line) + 1; size > maxColoured || len(line) > maxColouredLine {
			return nil
		}
	}
	next, err := l.Tokenise(&chroma.TokeniseOptions{State: "root", EnsureLF: false}, strings.Join(lines, "\n")+"\n")
	if err != nil {
		return nil
	}
	out := make([][]token, 1, len(lines)+1)
	at, n := 0, 0
	for t := next(); t != chroma.EOF; t = next() {
		if n++; n%256 == 0 && !c.Now().Before(c.Deadline) {
			return nil
		}
		class := classOf(t.Type)
		for i, part := range strings.Split(t.Value, "\n") {
			if i > 0 {
				out, at = append(out, nil), 0
			}
			if part != "" {
				at += len(part)
				last := len(out) - 1
				out[last] = append(out[last], token{at, class})
			}
		}
	}
	if len(out) < len(lines) {
		return nil
	}
	for i, line := range lines { // a lexer that changes the text does not colour it
		if tokens := out[i]; len(line) > 0 && (len(tokens) == 0 || tokens[len(tokens)-1].to != len(line)) {
			return nil
		}
	}
	return out
}

// classOf groups the types of tokens into the few colours that the stylesheet has.
func classOf(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Comment):
		return "c"
	case t.InCategory(chroma.Keyword):
		return "k"
	case t.InSubCategory(chroma.LiteralString):
		return "s"
	case t.InSubCategory(chroma.LiteralNumber):
		return "m"
	case t == chroma.NameFunction, t == chroma.NameFunctionMagic:
		return "f"
	case t == chroma.NameTag, t == chroma.NameClass, t == chroma.NameNamespace, t == chroma.NameBuiltin, t == chroma.NameBuiltinPseudo, t == chroma.NameDecorator:
		return "t"
	case t == chroma.NameAttribute, t == chroma.NameVariable, t == chroma.NameConstant:
		return "a"
	}
	return ""
}
