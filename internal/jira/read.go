package jira

import (
	"encoding/json"
	"strings"
)

// plainText is the text of an Atlassian Document Format document, a line for each
// of its blocks.
func plainText(doc json.RawMessage) string {
	var root adfNode
	if err := json.Unmarshal(doc, &root); err != nil {
		return ""
	}
	var b strings.Builder
	var walk func(n adfNode)
	walk = func(n adfNode) {
		b.WriteString(n.Text)
		for _, child := range n.Content {
			walk(child)
		}
		switch n.Type {
		case "paragraph", "heading", "codeBlock", "hardBreak":
			b.WriteByte('\n')
		}
	}
	walk(root)
	return b.String()
}
