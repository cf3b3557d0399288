package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	// Said, Declined, Thought and ToolCall are written by the model. Declined is why it does not answer.
	Said       ItemKind = "assistant"
	Declined   ItemKind = "refusal"
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
	// Signature and Redacted belong to a thought: the provider's signature, and what only the provider can read of it.
	Signature, Redacted string
}

// OfModel reports whether the model writes such items.
func (k ItemKind) OfModel() bool { return k == Said || k == Declined || k == Thought || k == ToolCall }

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

// note records a part of the conversation.
func (q *Request) note(path string, at span) {
	if kind, ok := q.format.talk[path]; ok && len(q.parts) < maxParts {
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
				kind := q.format.talk[p.path]
				items := []Item{{Kind: kind, Text: fmt.Sprintf("(%d bytes, not kept)", len(raw))}}
				switch {
				case len(raw) > maxPart:
				case p.path == "tools":
					items = toolsOf(raw)
				default:
					items = q.format.items(kind, raw)
				}
				for _, it := range items {
					if it.Kind == Thought && it.Text == "" {
						continue
					}
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
	a := NewAnswer(f)
	for document, err := range Documents(strings.HasPrefix(contentType, "text/event-stream"), bytes.NewReader(body)) {
		if err == nil {
			a.Add(document)
		}
	}
	return a.Items()
}

// Documents yields the documents of an answer: the data of its events, the elements of a list, or the body. An error is the
// last thing that it yields.
func Documents(events bool, body io.Reader) iter.Seq2[[]byte, error] {
	if events {
		return func(yield func([]byte, error) bool) { eventsOf(bufio.NewReader(body), yield) }
	}
	return func(yield func([]byte, error) bool) {
		whole, err := io.ReadAll(body)
		list := []json.RawMessage{whole}
		var elements []json.RawMessage
		if json.Unmarshal(whole, &elements) == nil { // a stream of Gemini
			list = elements
		}
		for _, document := range list {
			if !yield(document, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func eventsOf(lines *bufio.Reader, yield func([]byte, error) bool) {
	var data []byte
	for {
		line, err := lines.ReadBytes('\n')
		line = bytes.TrimRight(line, "\r\n")
		if more, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, more...), '\n')
		}
		if len(data) > 0 && (len(line) == 0 || err != nil) {
			if !yield(data, nil) {
				return
			}
			data = data[:0]
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				yield(nil, err)
			}
			return
		}
	}
}

// Answer collects the items of an answer from its documents.
type Answer struct {
	format *format
	all    []*growing
	places map[string]*growing
	// said is what the model has said in the last document.
	said string
}

// NewAnswer returns an answer without items.
func NewAnswer(f Format) *Answer { return &Answer{format: formats[f], places: map[string]*growing{}} }

// Add adds a document: the data of an event, or the whole answer. It returns what the model says in it.
func (a *Answer) Add(document []byte) (said string) {
	a.said = ""
	a.format.add(a, document)
	return a.said
}

// Items returns the items so far.
func (a *Answer) Items() []Item {
	var items []Item
	for _, g := range a.all {
		it := g.Item
		it.Text += g.text.String()
		items = appendItem(items, it)
	}
	return items
}

// growing is an item that may not be complete yet.
type growing struct {
	Item
	text strings.Builder
}

// add adds complete items.
func (a *Answer) add(items ...Item) {
	for _, it := range items {
		a.all = append(a.all, &growing{Item: it})
		if it.Kind == Said {
			a.said += it.Text
		}
	}
}

// at returns the item at a place. It adds begin if there is none.
func (a *Answer) at(place string, begin Item) *growing {
	g := a.places[place]
	if g == nil {
		g = &growing{Item: begin}
		a.all, a.places[place] = append(a.all, g), g
	}
	return g
}

// write appends text to the item at a place, and returns it. There is none yet if no text has come.
func (a *Answer) write(place string, kind ItemKind, text string) *growing {
	g := a.places[place]
	if text != "" {
		g = a.at(place, Item{Kind: kind})
		g.text.WriteString(text)
		if g.Kind == Said {
			a.said += text
		}
	}
	return g
}

// Decode decodes the fields that have the types of v. Other fields are ignored, because servers and programs
// differ in them.
func Decode(raw []byte, v any) bool {
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

// TextOf returns a content that is a text, or the texts in a list of parts. For any other content
// it returns the JSON.
func TextOf(raw json.RawMessage) string {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []textPart
	if raw[0] != '[' || !Decode(raw, &parts) {
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
	if it.Text == "" && it.Redacted == "" && it.Kind != ToolCall && it.Kind != ToolResult {
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
	if !Decode(raw, &tools) {
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
