package jira

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// paragraph is what stands in lines, with the breaks between them kept.
func (w markdownWriter) paragraph(nodes []adfNode) string {
	return escapeLines(strings.TrimSpace(w.inlines(nodes, 0)))
}

// inOneLine is what stands in a line that may have no break.
func (w markdownWriter) inOneLine(nodes []adfNode) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(w.inlines(nodes, 0), "\\\n", " ")), " ")
}

// nesting lists the marks that Markdown has a form for, the outermost first.
var nesting = []string{"link", "strong", "em", "strike", "subsup"}

// inlines are nodes in a line. Neighbours that share a mark share its form, so
// that no two forms touch.
func (w markdownWriter) inlines(nodes []adfNode, level int) string {
	var b strings.Builder
	if level == len(nesting) {
		for _, n := range nodes {
			b.WriteString(w.leaf(n))
		}
		return b.String()
	}
	for i := 0; i < len(nodes); {
		from, mark := i, nodes[i].mark(nesting[level])
		for i < len(nodes) && sameMark(nodes[i].mark(nesting[level]), mark) {
			i++
		}
		b.WriteString(marked(mark, w.inlines(nodes[from:i], level+1)))
	}
	return b.String()
}

// mark is the node's mark of a type; nil: it has none.
func (n adfNode) mark(kind string) *adfMark {
	at := slices.IndexFunc(n.Marks, func(m adfMark) bool { return m.Type == kind })
	if at < 0 {
		return nil
	}
	return &n.Marks[at]
}

func sameMark(a, b *adfMark) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.attr("href") == b.attr("href") && a.attr("type") == b.attr("type")
}

func (m adfMark) attr(name string) string {
	text, _ := m.Attrs[name].(string)
	return text
}

// marked is a text in a mark's form. Spaces at its ends stay outside, where
// Markdown wants them.
func marked(m *adfMark, text string) string {
	inner := strings.TrimSpace(text)
	if m == nil || inner == "" {
		return text
	}
	at := strings.Index(text, inner)
	before, after := text[:at], text[at+len(inner):]
	switch m.Type {
	case "link":
		if address := m.attr("href"); address != "" {
			inner = "[" + inner + "](" + linkTarget(address) + ")"
		}
	case "strong":
		inner = "**" + inner + "**"
	case "em":
		inner = "*" + inner + "*"
	case "strike":
		inner = "~~" + inner + "~~"
	case "subsup":
		if kind := m.attr("type"); kind == "sub" || kind == "sup" {
			inner = "<" + kind + ">" + inner + "</" + kind + ">"
		}
	}
	return before + inner + after
}

// leaf is a node in a line without its marks, except that of code.
func (w markdownWriter) leaf(n adfNode) string {
	switch n.Type {
	case "text", "":
		if n.mark("code") != nil {
			return codeSpan(n.Text)
		}
		return escapeMarkdown(breaksAsSpaces(n.Text))
	case "hardBreak":
		return "\\\n"
	case "mention":
		name := n.attr("text")
		if name == "" {
			name = n.attr("id")
		}
		return "@" + escapeMarkdown(strings.TrimPrefix(name, "@"))
	case "emoji":
		if text := n.attr("text"); text != "" {
			return escapeMarkdown(text)
		}
		return escapeMarkdown(n.attr("shortName"))
	case "date":
		return dateOf(n)
	case "status":
		if text := n.attr("text"); text != "" {
			return "**" + escapeMarkdown(text) + "**"
		}
		return ""
	case "inlineCard":
		return card(n)
	case "mediaInline":
		return w.media(n)
	}
	return escapeMarkdown(n.attr("text"))
}

// dateOf is the day of a date, which is kept in milliseconds.
func dateOf(n adfNode) string {
	text := n.attr("timestamp")
	if f, ok := n.Attrs["timestamp"].(float64); ok {
		text = strconv.FormatFloat(f, 'f', 0, 64)
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return escapeMarkdown(text)
	}
	return time.UnixMilli(ms).UTC().Format(time.DateOnly)
}

// codeSpan is a text as code in a line, between backticks that it does not have.
func codeSpan(text string) string {
	text = breaksAsSpaces(text)
	if strings.TrimSpace(text) == "" {
		return text
	}
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if text[0] == '`' || text[len(text)-1] == '`' {
		text = " " + text + " "
	}
	return fence + text + fence
}

// escapeMarkdown is a text that no reader of Markdown takes for marks.
func escapeMarkdown(text string) string {
	var b strings.Builder
	before := ' '
	for i, r := range text {
		next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
		switch {
		case r == '\\' || r == '`' || r == '*' || r == '[' || r == ']',
			r == '~' && next == '~',
			r == '_' && (!wordRune(before) || !wordRune(next)),
			r == '<' && (unicode.IsLetter(next) || next == '/' || next == '!' || next == '?'),
			r == '&' && entityFollows(text[i+1:]):
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		before = r
	}
	return b.String()
}

func wordRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// lineMarks begin something else than a paragraph at the beginning of a line.
var lineMarks = regexp.MustCompile(`(?m)^( {0,3})(#{1,6}(?:[ \t]|$)|>|[-+](?:[ \t]|$)|-{3}|={3}|~{3})`)

// numberMarks begin a numbered list.
var numberMarks = regexp.MustCompile(`(?m)^( {0,3}[0-9]{1,9})([.)])([ \t]|$)`)

// escapeLines takes the meaning from what begins the lines of a paragraph.
func escapeLines(text string) string {
	return numberMarks.ReplaceAllString(lineMarks.ReplaceAllString(text, `$1\$2`), `$1\$2$3`)
}

// linkTarget is an address inside a link's parentheses or angle brackets.
func linkTarget(address string) string {
	return strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "\n", "", "\r", "", "\\", "%5C").Replace(address)
}
