package jira

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// plainText is the text of an Atlassian Document Format document, a line for each of its blocks. Of what has another form than the
// format's, it takes what does fit.
func plainText(doc json.RawMessage) (string, error) {
	var root adfNode
	var form *json.UnmarshalTypeError
	if err := json.Unmarshal(doc, &root); err != nil && !errors.As(err, &form) {
		return "", fmt.Errorf("read a document of Jira's: %w", err)
	}
	var b strings.Builder
	root.writeText(&b)
	return strings.TrimSpace(b.String()), nil
}

func (n adfNode) writeText(b *strings.Builder) {
	switch n.Type {
	case "listItem", "taskItem", "decisionItem":
		b.WriteString("- ")
	}
	b.WriteString(n.Text)
	if title, _ := n.Attrs["title"].(string); title != "" {
		b.WriteString(title + "\n")
	}
	for _, name := range []string{"text", "url", "alt"} { // of mentions, emojis, cards, files
		if text, _ := n.Attrs[name].(string); text != "" {
			b.WriteString(text)
			break
		}
	}
	if text, _ := n.Attrs["timestamp"].(string); text != "" {
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
			b.WriteString(time.UnixMilli(ms).UTC().Format(time.DateOnly))
		}
	}
	for _, m := range n.Marks {
		if address, _ := m.Attrs["href"].(string); address != "" && address != n.Text {
			b.WriteString(" <" + address + ">")
		}
	}
	for _, child := range n.Content {
		child.writeText(b)
	}
	switch n.Type {
	case "paragraph", "heading", "codeBlock", "hardBreak", "taskItem", "decisionItem", "blockCard", "embedCard", "media", "rule":
		b.WriteByte('\n')
	}
}
