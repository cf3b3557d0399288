package jira

import "github.com/maestro-hive/maestro/internal/safetext"

// adfNode is a node of an Atlassian Document Format document.
type adfNode struct {
	Type    string         `json:"type"`
	Version int            `json:"version,omitempty"`
	Attrs   map[string]any `json:"attrs,omitempty"`
	Content []adfNode      `json:"content,omitempty"`
	Text    string         `json:"text,omitempty"`
	Marks   []adfMark      `json:"marks,omitempty"`
}

type adfMark struct {
	Type  string         `json:"type"`
	Attrs map[string]any `json:"attrs,omitempty"`
}

// adf is the document as version 3 of the API takes it.
func (d document) adf() adfNode {
	root := adfNode{Type: "doc", Version: 1}
	for _, b := range d {
		switch b.kind {
		case heading:
			root.Content = append(root.Content, adfNode{Type: "heading", Attrs: map[string]any{"level": 3}, Content: inlines(b.spans)})
		case paragraph:
			root.Content = append(root.Content, adfNode{Type: "paragraph", Content: inlines(b.spans)})
		case code:
			node := adfNode{Type: "codeBlock"}
			if text := safetext.Block(b.text); text != "" {
				node.Content = []adfNode{{Type: "text", Text: text}}
			}
			root.Content = append(root.Content, node)
		case bullets:
			list := adfNode{Type: "bulletList"}
			for _, item := range b.items {
				list.Content = append(list.Content, adfNode{
					Type:    "listItem",
					Content: []adfNode{{Type: "paragraph", Content: inlines(item)}},
				})
			}
			if len(list.Content) > 0 {
				root.Content = append(root.Content, list)
			}
		}
	}
	return root
}

// inlines are the spans of a line, without empty ones, which the format forbids.
func inlines(spans []span) []adfNode {
	var nodes []adfNode
	for _, s := range spans {
		text := safetext.Block(s.text)
		if text == "" {
			continue
		}
		node := adfNode{Type: "text", Text: text}
		if s.strong {
			node.Marks = append(node.Marks, adfMark{Type: "strong"})
		}
		if s.link != "" {
			node.Marks = append(node.Marks, adfMark{Type: "link", Attrs: map[string]any{"href": s.link}})
		}
		nodes = append(nodes, node)
	}
	return nodes
}
