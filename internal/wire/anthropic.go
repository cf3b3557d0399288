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

// anthropicMessages is Anthropic's Messages. Its counts are cumulative, and cached tokens are not
// part of the input.
type anthropicMessages struct{}

func (anthropicMessages) requestValue(q *Request, path string, l leaf) {
	switch path {
	case "max_tokens":
		q.bound(path, l)
	case "thinking.budget_tokens": // the bound of the answer must be larger
		q.Floor = max(q.Floor, l.number()+1)
	case "tools[].max_uses":
		q.Searches += min(max(l.number(), 0), maxSearches)
	case "tools[].type":
		if text := l.text(); strings.HasPrefix(text, "code_execution") || strings.HasPrefix(text, "advisor") {
			q.Unpriced = text
		}
	}
	switch {
	case strings.HasSuffix(path, ".cache_control.ttl"):
		q.Hour = q.Hour || l.is("1h")
	case strings.HasSuffix(path, ".source.type") && (l.is("url") || l.is("file")), strings.HasSuffix(path, ".source.media_type") && l.is("application/pdf"):
		q.refers(l, maxWindow)
	}
}

func (anthropicMessages) outputKey(*Request) string { return "max_tokens" }

func (anthropicMessages) answerValue(m *Meter, path string, l leaf) {
	if path == "type" {
		m.event = l.text()
	}
	path = strings.TrimPrefix(path, "message.") // of message_start
	if part, ok := strings.CutPrefix(path, "usage.iterations[]."); ok {
		m.each.anthropic(part, l, (*count).add)
	} else if part, ok := strings.CutPrefix(path, "usage."); ok {
		m.counts.anthropic(part, l, (*count).set)
		m.readCost(part, part, l) // of a compatible server, like OpenRouter's
	}
	switch path {
	case "usage.service_tier":
		m.tiers[0] = l.word()
	case "usage.speed":
		m.tiers[1] = l.word()
	case "usage.inference_geo":
		m.tiers[2] = l.word()
	case "usage.output_tokens":
		m.countOutput(l)
	case "stop_reason", "delta.stop_reason":
		m.stopped(l)
	default:
		m.readError(path, l)
	}
}

// anthropic reads a count.
func (c *counts) anthropic(name string, l leaf, take func(*count, leaf)) {
	switch name {
	case "input_tokens":
		take(&c.input, l)
	case "cache_read_input_tokens":
		take(&c.cacheRead, l)
	case "cache_creation_input_tokens":
		take(&c.cacheWrite, l)
	case "cache_creation.ephemeral_1h_input_tokens":
		take(&c.cacheHour, l)
	case "output_tokens":
		take(&c.output, l)
	case "output_tokens_details.thinking_tokens":
		take(&c.reasoning, l)
	case "server_tool_use.web_search_requests":
		take(&c.searches, l)
	}
}

func (anthropicMessages) content(path string) bool {
	switch path {
	case "delta.text", "delta.partial_json", "delta.thinking", "content[].text", "content[].thinking":
		return true
	}
	return strings.HasPrefix(path, "content[].input.")
}

// setEnded: the counts of an answer leave out parts that the provider has counted separately before
// it, like a summary of the conversation. So the parts are added.
func (anthropicMessages) setEnded(m *Meter) {
	c, parts := &m.counts, m.each
	c.input.atLeast(parts.input.n)
	c.cacheRead.atLeast(parts.cacheRead.n)
	c.cacheWrite.atLeast(parts.cacheWrite.n)
	c.cacheHour.atLeast(parts.cacheHour.n)
	c.output.atLeast(parts.output.n)
	m.facts.Ended = m.facts.Ended || m.event == "message_stop" || m.event == "message" && m.facts.Whole
}

func (anthropicMessages) usage(c counts) (usageOf, string) {
	return usageOf{input: c.input.n, output: c.output.n, read: c.cacheRead.n, write: c.cacheWrite.n, reasoning: c.reasoning.n}, ""
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

// anthropicBlocks splits a content into items: a text, or blocks.
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

func (anthropicMessages) addDocument(a *answer, document []byte) {
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
