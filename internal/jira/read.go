package jira

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxNesting bounds how deep blocks may lie in one another: what lies deeper
// keeps its text and loses its form.
const maxNesting = 60

// readADF reads an Atlassian Document Format document. Of what has another form
// than the format's, it takes what does fit.
func readADF(doc json.RawMessage) (adfNode, error) {
	var root adfNode
	var form *json.UnmarshalTypeError
	if err := json.Unmarshal(doc, &root); err != nil && !errors.As(err, &form) {
		return adfNode{}, fmt.Errorf("read a document of Jira's: %w", err)
	}
	return root, nil
}

// plainText is the text of an Atlassian Document Format document, a line for each
// of its blocks.
func plainText(doc json.RawMessage) string {
	root, err := readADF(doc)
	if err != nil {
		return ""
	}
	var b strings.Builder
	root.writeText(&b)
	return b.String()
}

func (n adfNode) writeText(b *strings.Builder) {
	b.WriteString(n.Text)
	for _, child := range n.Content {
		child.writeText(b)
	}
	switch n.Type {
	case "paragraph", "heading", "codeBlock", "hardBreak":
		b.WriteByte('\n')
	}
}

// attr is an attribute that is a text; empty: there is none.
func (n adfNode) attr(name string) string {
	text, _ := n.Attrs[name].(string)
	return text
}

// number is an attribute that is a number.
func (n adfNode) number(name string, otherwise int) int {
	if f, ok := n.Attrs[name].(float64); ok && f >= 0 && f < 1e6 {
		return int(f)
	}
	return otherwise
}

// inline reports whether the node stands in a line, and not below others.
func (n adfNode) inline() bool {
	switch n.Type {
	case "text", "hardBreak", "mention", "emoji", "inlineCard", "date", "status", "placeholder", "mediaInline", "inlineExtension":
		return true
	}
	return n.Type == "" && n.Text != ""
}

// markdownWriter writes a document as Markdown.
type markdownWriter struct {
	// attachment is the name that a file has beside the text.
	attachment func(name string) string
}

// blocks are nodes below one another, a blank line between them. What stands in a
// line and has no block around it is a paragraph.
func (w markdownWriter) blocks(nodes []adfNode, depth int) string {
	var out []string
	add := func(text string) {
		if strings.TrimSpace(text) != "" {
			out = append(out, text)
		}
	}
	for i := 0; i < len(nodes); {
		from := i
		for i < len(nodes) && nodes[i].inline() {
			i++
		}
		if i > from {
			add(w.paragraph(nodes[from:i]))
			continue
		}
		add(w.block(nodes[i], depth))
		i++
	}
	return strings.Join(out, "\n\n")
}

// block is one node as Markdown. One of an unknown type is what is inside it.
func (w markdownWriter) block(n adfNode, depth int) string {
	if depth > maxNesting {
		var b strings.Builder
		n.writeText(&b)
		return escapeLines(escapeMarkdown(strings.Join(strings.Fields(b.String()), " ")))
	}
	switch n.Type {
	case "paragraph":
		return w.paragraph(n.Content)
	case "heading":
		level := min(max(n.number("level", 1), 1), 6)
		return strings.Repeat("#", level) + " " + w.inOneLine(n.Content)
	case "codeBlock":
		return fenced(n)
	case "rule":
		return "---"
	case "bulletList", "orderedList", "taskList", "decisionList":
		return w.list(n, depth)
	case "blockquote":
		return prefixed("> ", w.blocks(n.Content, depth+1))
	case "panel":
		title := map[string]string{
			"info": "Info", "note": "Note", "warning": "Warning", "success": "Success", "error": "Error", "tip": "Tip",
		}[n.attr("panelType")]
		return prefixed("> ", titled(title, w.blocks(n.Content, depth+1)))
	case "expand", "nestedExpand":
		return titled(escapeMarkdown(n.attr("title")), w.blocks(n.Content, depth+1))
	case "table":
		return w.table(n, depth)
	case "media":
		return w.media(n)
	case "blockCard", "embedCard":
		return card(n)
	}
	if inside := w.blocks(n.Content, depth+1); inside != "" {
		return inside
	}
	for _, name := range []string{"text", "title", "url"} {
		if text := n.attr(name); text != "" {
			return escapeLines(escapeMarkdown(text))
		}
	}
	return escapeLines(escapeMarkdown(n.Text))
}

func titled(title, text string) string {
	switch {
	case title == "":
		return text
	case text == "":
		return "**" + title + "**"
	}
	return "**" + title + "**\n\n" + text
}

// prefixed begins every line with a prefix.
func prefixed(prefix, text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(prefix+l, " ")
	}
	return strings.Join(lines, "\n")
}

// fenced is a code block, in a fence that its text does not have.
func fenced(n adfNode) string {
	var b strings.Builder
	for _, child := range n.Content {
		child.writeText(&b)
	}
	text := strings.TrimRight(b.String(), "\n")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	language := strings.Map(func(r rune) rune {
		if r == '`' || r <= ' ' {
			return -1
		}
		return r
	}, n.attr("language"))
	return fence + language + "\n" + text + "\n" + fence
}

// list is a list of any kind, with the lists inside its items indented.
func (w markdownWriter) list(n adfNode, depth int) string {
	var out []string
	number := n.number("order", 1)
	for _, item := range n.Content {
		mark := "- "
		switch {
		case item.Type == n.Type && (n.Type == "taskList" || n.Type == "decisionList"):
			out = append(out, prefixed("  ", w.list(item, depth+1))) // a list of its own, inside the one before it
			continue
		case (item.Type == "taskItem" || item.Type == "blockTaskItem") && item.attr("state") == "DONE":
			mark = "- [x] "
		case item.Type == "taskItem" || item.Type == "blockTaskItem":
			mark = "- [ ] "
		case n.Type == "orderedList":
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		out = append(out, w.item(mark, item, depth))
	}
	return strings.Join(out, "\n")
}

// item is an entry of a list: its first line after the mark, the others below it.
func (w markdownWriter) item(mark string, item adfNode, depth int) string {
	if depth >= maxNesting {
		return mark + w.block(item, depth+1)
	}
	indent := strings.Repeat(" ", len(mark))
	if strings.HasPrefix(mark, "- ") {
		indent = "  "
	}
	text := ""
	for i, child := range item.Content {
		below := ""
		if child.inline() {
			below = w.blocks(item.Content[i:], depth+1)
		} else {
			below = w.block(child, depth+1)
		}
		switch {
		case below == "":
		case text == "":
			text = below
		case strings.HasSuffix(child.Type, "List"):
			text += "\n" + below
		default:
			text += "\n\n" + below
		}
		if child.inline() {
			break
		}
	}
	first, rest, more := strings.Cut(text, "\n")
	if !more {
		return strings.TrimRight(mark+first, " ")
	}
	return mark + first + "\n" + prefixed(indent, rest)
}

// table is a table of one line for each row; what is wider than a column or has
// several blocks is fitted in.
func (w markdownWriter) table(n adfNode, depth int) string {
	var rows [][]string
	head, columns := false, 0
	for _, row := range n.Content {
		var cells []string
		header := len(row.Content) > 0
		for _, cell := range row.Content {
			header = header && cell.Type == "tableHeader"
			text := strings.ReplaceAll(w.blocks(cell.Content, depth+1), "\\\n", "\n")
			text = strings.ReplaceAll(text, "|", `\|`)
			cells = append(cells, strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }), "<br>"))
			for range min(cell.number("colspan", 1), 50) - 1 {
				cells = append(cells, "")
			}
		}
		head = head || header && len(rows) == 0
		columns = max(columns, len(cells))
		rows = append(rows, cells)
	}
	if columns == 0 {
		return ""
	}
	if !head {
		rows = append([][]string{{}}, rows...)
	}
	var b strings.Builder
	for i, cells := range rows {
		for len(cells) < columns {
			cells = append(cells, "")
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", columns) + "\n")
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// media is a picture or a file: one of the ticket's is named, as it is beside the
// text.
func (w markdownWriter) media(n adfNode) string {
	name := n.attr("alt")
	if address := n.attr("url"); n.attr("type") == "external" && address != "" {
		return "![" + escapeMarkdown(name) + "](" + linkTarget(address) + ")"
	}
	if name == "" {
		return "(an attachment)"
	}
	return "(attachment: " + escapeMarkdown(w.attachment(name)) + ")"
}

// card is a link that Jira shows as a preview.
func card(n adfNode) string {
	if address := n.attr("url"); address != "" {
		return "<" + linkTarget(address) + ">"
	}
	data, _ := n.Attrs["data"].(map[string]any)
	if address, _ := data["url"].(string); address != "" {
		return "<" + linkTarget(address) + ">"
	}
	name, _ := data["name"].(string)
	return escapeMarkdown(name)
}
