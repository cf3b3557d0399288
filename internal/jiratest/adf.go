package jiratest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

type node struct {
	Type    string         `json:"type"`
	Version *int           `json:"version"`
	Attrs   map[string]any `json:"attrs"`
	Content []node         `json:"content"`
	Text    *string        `json:"text"`
	Marks   []struct {
		Type  string         `json:"type"`
		Attrs map[string]any `json:"attrs"`
	} `json:"marks"`
}

// blocks are what a document, and inlines what a line of it may have.
var (
	blocks = []string{
		"paragraph", "heading", "codeBlock", "bulletList", "orderedList", "blockquote", "panel", "rule", "table",
		"mediaSingle", "mediaGroup", "expand", "taskList", "decisionList",
	}
	inlines = []string{"text", "hardBreak", "mention", "emoji", "inlineCard", "date", "status"}
	markers = []string{"strong", "em", "code", "link", "strike", "underline", "subsup", "textColor", "backgroundColor"}
	inside  = map[string][]string{
		"doc": blocks, "paragraph": inlines, "heading": inlines, "codeBlock": {"text"},
		"bulletList": {"listItem"}, "orderedList": {"listItem"},
		"listItem":   {"paragraph", "bulletList", "orderedList", "codeBlock", "mediaSingle"},
		"blockquote": {"paragraph", "bulletList", "orderedList", "codeBlock"},
		"panel":      {"paragraph", "heading", "bulletList", "orderedList"},
		"rule":       nil, "text": nil, "hardBreak": nil,
	}
)

// CheckADF says what the schema of the Atlassian Document Format has against a
// document, as far as it is checked here; empty: nothing.
func CheckADF(doc []byte) string {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	var root node
	if err := d.Decode(&root); err != nil {
		return "INVALID_INPUT: " + err.Error()
	}
	if root.Type != "doc" || root.Version == nil || *root.Version != 1 || root.Content == nil {
		return "INVALID_INPUT: a document is a node of type doc with version 1 and content"
	}
	return check(root, "doc")
}

func check(n node, path string) string {
	allowed, known := inside[n.Type]
	if !known {
		return fmt.Sprintf("INVALID_INPUT: %s: unknown type %q", path, n.Type)
	}
	if why := alone(n); why != "" {
		return "INVALID_INPUT: " + path + ": " + why
	}
	for i, child := range n.Content {
		below := fmt.Sprintf("%s/%s[%d]", path, child.Type, i)
		if !slices.Contains(allowed, child.Type) {
			return "INVALID_INPUT: " + below + ": may not stand here"
		}
		if n.Type == "codeBlock" && len(child.Marks) > 0 {
			return "INVALID_INPUT: " + below + ": code has no marks"
		}
		if why := check(child, below); why != "" {
			return why
		}
	}
	return ""
}

// alone checks a node without what is inside it.
func alone(n node) string {
	if (n.Type == "text") != (n.Text != nil) {
		return "text belongs to nodes of type text, and to them alone"
	}
	switch n.Type {
	case "text":
		if *n.Text == "" {
			return "a text is not empty"
		}
	case "heading":
		if level, ok := n.Attrs["level"].(float64); !ok || level < 1 || level > 6 {
			return "a heading has a level from 1 to 6"
		}
	case "bulletList", "orderedList", "listItem", "blockquote", "panel":
		if len(n.Content) == 0 {
			return "it has no content"
		}
	}
	for _, m := range n.Marks {
		if n.Type != "text" || !slices.Contains(markers, m.Type) {
			return fmt.Sprintf("the mark %q may not stand here", m.Type)
		}
		if href, _ := m.Attrs["href"].(string); m.Type == "link" && href == "" {
			return "a link has an address"
		}
	}
	return ""
}
