package wire

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

func routeAnthropic(method, path string) (Route, bool) {
	switch {
	case method == http.MethodPost && path == "/v1/messages":
		return Route{Path: path, Format: Messages}, true
	case method == http.MethodPost && path == "/v1/messages/count_tokens", read(method) && path == "/v1/models":
		return Route{Path: path}, true
	}
	_, one := below(path, "/v1/models/")
	return Route{Path: path}, one && read(method)
}

// anthropicMessages is Anthropic's Messages. Its counts are absolute, and cached tokens are
// apart from the input.
type anthropicMessages struct{}

func (anthropicMessages) ask(q *Request, path string, l leaf) {
	switch path {
	case "max_tokens":
		q.bound(path, l)
	case "thinking.budget_tokens": // the answer must be allowed more
		q.Floor = max(q.Floor, l.number()+1)
	}
}

func (anthropicMessages) outputKey(*Request) string { return "max_tokens" }

func (anthropicMessages) take(m *Meter, path string, l leaf) {
	if path == "type" {
		m.event = l.text()
	}
	switch strings.TrimPrefix(path, "message.") { // of message_start
	case "usage.input_tokens":
		m.counts.input.set(l)
	case "usage.cache_read_input_tokens":
		m.counts.cacheRead.set(l)
	case "usage.cache_creation_input_tokens":
		m.counts.cacheWrite.set(l)
	case "usage.output_tokens":
		m.countOutput(l)
	case "usage.output_tokens_details.thinking_tokens":
		m.counts.reasoning.set(l)
	case "stop_reason", "delta.stop_reason":
		m.stopped(l)
	case "error.type":
		m.fault().Type = l.text()
	case "error.message":
		m.fault().Message = l.text()
	}
}

func (anthropicMessages) content(path string) bool {
	switch path {
	case "delta.text", "delta.partial_json", "delta.thinking", "content[].text", "content[].thinking":
		return true
	}
	return strings.HasPrefix(path, "content[].input.")
}

func (anthropicMessages) ended(m *Meter) {
	m.facts.Ended = m.facts.Ended || m.event == "message_stop" || m.event == "message" && m.facts.Whole
}

func (anthropicMessages) usage(c counts) usageOf {
	return usageOf{input: c.input.n, output: c.output.n, read: c.cacheRead.n, write: c.cacheWrite.n, reasoning: c.reasoning.n}
}

type anthropicBlock struct {
	Type, Text, Thinking, ID, Name string

	ToolUseID      string `json:"tool_use_id"`
	Input, Content json.RawMessage
	IsError        bool `json:"is_error"`
}

func (b anthropicBlock) item(kind ItemKind) Item {
	switch {
	case b.Type == "text":
		return Item{Kind: kind, Text: b.Text}
	case b.Type == "thinking":
		return Item{Kind: Thought, Text: b.Thinking}
	case b.Type == "redacted_thinking":
		return Item{Kind: Thought}
	case strings.HasSuffix(b.Type, "tool_use"):
		return Item{Kind: ToolCall, ID: b.ID, Name: b.Name, Text: string(b.Input)}
	case strings.HasSuffix(b.Type, "tool_result"):
		return Item{Kind: ToolResult, ID: b.ToolUseID, Text: textOf(b.Content), Failed: b.IsError}
	}
	return Item{Kind: kind, Text: "(" + b.Type + ")"}
}

// anthropicBlocks takes a content apart: a text, or blocks.
func anthropicBlocks(kind ItemKind, content json.RawMessage) (items []Item) {
	var blocks []anthropicBlock
	if len(content) > 0 && content[0] == '[' && decode(content, &blocks) {
		for _, b := range blocks {
			items = appendItem(items, b.item(kind))
		}
		return items
	}
	return appendItem(nil, Item{Kind: kind, Text: textOf(content)})
}

type anthropicMessage struct {
	Role    string
	Content json.RawMessage
}

func (anthropicMessages) items(kind ItemKind, raw []byte) []Item {
	if kind == Instructions {
		return anthropicBlocks(kind, raw)
	}
	var m anthropicMessage
	decode(raw, &m)
	return anthropicBlocks(kindOf(m.Role), m.Content)
}

func (anthropicMessages) answered(a *answer, document []byte) {
	var e struct {
		anthropicMessage
		Type  string
		Index int
		Block anthropicBlock `json:"content_block"`
		Delta struct {
			Text, Thinking string
			PartialJSON    string `json:"partial_json"`
		}
	}
	decode(document, &e)
	place := strconv.Itoa(e.Index)
	switch e.Type {
	case "message":
		a.add(anthropicBlocks(Said, e.Content)...)
	case "content_block_start":
		begin := e.Block.item(Said)
		if begin.Text == "{}" { // the arguments follow
			begin.Text = ""
		}
		a.at(place, begin)
	case "content_block_delta":
		a.write(place, Said, e.Delta.Text+e.Delta.Thinking+e.Delta.PartialJSON)
	}
}
