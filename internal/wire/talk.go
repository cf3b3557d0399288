package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// ItemKind is the kind of an item of a conversation.
type ItemKind string

// The kinds of items.
const (
	Instructions ItemKind = "system"
	// Tools are the names of the tools that the model may call.
	Tools ItemKind = "tools"
	Asked ItemKind = "user"
	// Said, Thought and ToolCall are written by the model.
	Said       ItemKind = "assistant"
	Thought    ItemKind = "thinking"
	ToolCall   ItemKind = "tool call"
	ToolResult ItemKind = "tool result"
)

// Item is a part of a conversation, in words that are common to all formats.
type Item struct {
	Kind ItemKind
	// ID connects a tool call and its result; empty: the format has no such name.
	ID string
	// Name is the name of a tool.
	Name string
	// Text is the text of the item; for a tool call, its arguments as the model has written them.
	// A part that is not text is represented by its type.
	Text   string
	Failed bool
}

// OfModel reports whether the model writes such items.
func (k ItemKind) OfModel() bool { return k == Said || k == Thought || k == ToolCall }

const (
	// maxPart bounds a message that is split into items, and all definitions of tools together,
	// in bytes. maxParts bounds the number of such messages, and of all their items.
	maxPart  = 1 << 20
	maxParts = 20_000
)

// part is the position of a part of the conversation in the body, with its path.
type part struct {
	path string
	at   span
}

// talks are the paths of a request's conversation, instructions and tools.
var talks = map[string]ItemKind{
	"messages[]": Asked, "input": Asked, "input[]": Asked, "contents[]": Asked,
	"system": Instructions, "instructions": Instructions, "systemInstruction": Instructions, "system_instruction": Instructions,
	"tools": Tools,
}

// note records a part of the conversation.
func (q *Request) note(path string, at span) {
	if kind, ok := talks[path]; ok && len(q.parts) < maxParts {
		if path == "input" && q.body[at.from] != '"' { // a list, whose elements are parts
			return
		}
		if kind == Asked {
			q.parts = append(q.parts, part{path, at})
		} else {
			q.head = append(q.head, part{path, at})
		}
	}
}

// Items yields the conversation of the request, the tools and the instructions first. It yields
// nothing if the request has no conversation in its format.
func (q *Request) Items() iter.Seq[Item] {
	return func(yield func(Item) bool) {
		left := maxParts
		for _, parts := range [][]part{q.head, q.parts} {
			for _, p := range parts {
				raw := q.body[p.at.from:p.at.to]
				items := []Item{{Kind: talks[p.path], Text: fmt.Sprintf("(%d bytes, not kept)", len(raw))}}
				switch {
				case len(raw) > maxPart:
				case p.path == "tools":
					items = toolsOf(raw)
				default:
					items = q.format.items(talks[p.path], raw)
				}
				for _, it := range items {
					if left--; left < 0 || !yield(it) {
						return
					}
				}
			}
		}
	}
}

// ReadAnswer returns the items of an answer, which may be incomplete.
func ReadAnswer(f Format, contentType string, body []byte) []Item {
	a := answer{places: map[string]*growing{}}
	for document := range documents(strings.HasPrefix(contentType, "text/event-stream"), body) {
		formats[f].addDocument(&a, document)
	}
	var items []Item
	for _, g := range a.all {
		g.Text += g.text.String()
		if g.Text != "" || g.Kind == ToolCall {
			items = append(items, g.Item)
		}
	}
	return items
}

// documents yields the documents of an answer: the data of its events, the elements of a list, or
// the body.
func documents(events bool, body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var list []json.RawMessage
		switch {
		case events:
			var data []byte
			for line := range bytes.Lines(body) {
				line = bytes.TrimRight(line, "\r\n")
				if more, ok := bytes.CutPrefix(line, []byte("data:")); ok {
					data = append(append(data, more...), '\n')
				} else if len(line) == 0 && len(data) > 0 {
					if !yield(data) {
						return
					}
					data = data[:0]
				}
			}
		case json.Unmarshal(body, &list) == nil: // a stream of Gemini
			for _, document := range list {
				if !yield(document) {
					return
				}
			}
		default:
			yield(body)
		}
	}
}

// answer collects the items from the documents of a stream.
type answer struct {
	all    []*growing
	places map[string]*growing
}

// growing is an item that may not be complete yet.
type growing struct {
	Item
	text strings.Builder
}

// add adds complete items.
func (a *answer) add(items ...Item) {
	for _, it := range items {
		a.all = append(a.all, &growing{Item: it})
	}
}

// at returns the item at a place. It adds begin if there is none.
func (a *answer) at(place string, begin Item) *growing {
	g := a.places[place]
	if g == nil {
		g = &growing{Item: begin}
		a.all, a.places[place] = append(a.all, g), g
	}
	return g
}

// write appends text to the item at a place.
func (a *answer) write(place string, kind ItemKind, text string) {
	if text != "" {
		a.at(place, Item{Kind: kind}).text.WriteString(text)
	}
}

// decode decodes the fields that have the types of v. Other fields are ignored, because servers
// differ in them.
func decode(raw []byte, v any) bool {
	err := json.Unmarshal(raw, v)
	var other *json.UnmarshalTypeError
	return err == nil || errors.As(err, &other)
}

// kindOf returns the kind of a role's messages.
func kindOf(role string) ItemKind {
	switch role {
	case "assistant", "model":
		return Said
	case "system", "developer":
		return Instructions
	case "tool", "function":
		return ToolResult
	}
	return Asked
}

// textPart is an element of a list of contents.
type textPart struct {
	Type, Text, Refusal string
}

// textOf returns a content that is a text, or the texts in a list of parts. For any other content
// it returns the JSON.
func textOf(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []textPart
	if raw[0] != '[' || !decode(raw, &parts) {
		return string(raw)
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = cmp.Or(p.Text, p.Refusal, "("+p.Type+")")
	}
	return strings.Join(texts, "\n")
}

// appendItem appends an item unless it is empty. Tool calls and their results are always
// appended.
func appendItem(items []Item, it Item) []Item {
	if it.Text == "" && it.Kind != ToolCall && it.Kind != ToolResult {
		return items
	}
	return append(items, it)
}

// toolsOf returns the names of the tools, in any format.
func toolsOf(raw []byte) []Item {
	type tool struct {
		Name, Type string
	}
	var tools []struct {
		tool
		Function                   tool
		FunctionDeclarations       []tool
		FunctionDeclarationsSnaked []tool `json:"function_declarations"`
	}
	if !decode(raw, &tools) {
		return nil
	}
	var names []string
	for _, t := range tools {
		declared := append(t.FunctionDeclarations, t.FunctionDeclarationsSnaked...)
		if len(declared) == 0 {
			declared = []tool{{Name: cmp.Or(t.Name, t.Function.Name), Type: t.Type}}
		}
		for _, d := range declared {
			names = append(names, cmp.Or(d.Name, d.Type))
		}
	}
	return appendItem(nil, Item{Kind: Tools, Text: strings.Join(names, ", ")})
}
