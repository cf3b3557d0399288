package wire

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
)

// anthropicAPI is the API of Anthropic.
var anthropicAPI = description{
	Programs: Programs{
		OwnPath: "/v1/messages", BaseURL: "ANTHROPIC_BASE_URL", Key: "ANTHROPIC_API_KEY",
		Others:    []string{"ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"},
		WebSearch: DefaultWebSearch, Spoken: Messages,
	},
	base: "https://api.anthropic.com", dropped: "/v1", // as OpenAI's addresses end
	keyHeader: "X-Api-Key", headers: map[string]string{"Anthropic-Version": "2023-06-01"},
	route: func(method, path string) (Route, bool) {
		switch {
		case method == http.MethodPost && path == "/v1/messages":
			return Route{Path: path, Format: Messages}, true
		case method == http.MethodPost && path == anthropicCount:
			return Route{Path: path}, true
		}
		return Route{Path: path}, lists(method, path, "/v1/models")
	},
	refusals: map[Refusal]words{
		BudgetSpent:  {http.StatusPaymentRequired, "billing_error"},
		RateLimited:  {http.StatusTooManyRequests, "rate_limit_error"},
		Overloaded:   {529, "overloaded_error"},
		Unauthorized: {http.StatusUnauthorized, "authentication_error"},
		NotFound:     {http.StatusNotFound, "not_found_error"},
		Invalid:      {http.StatusBadRequest, "invalid_request_error"},
		TooLarge:     {http.StatusRequestEntityTooLarge, "request_too_large"},
	},
	errorBody: func(w words, message string, _ time.Duration) any {
		return map[string]any{"type": "error", "error": map[string]any{"type": w.kind, "message": message}}
	},
}

const anthropicCount = "/v1/messages/count_tokens"

// anthropicMessages is Anthropic's Messages. Its counts are cumulative, and cached tokens are not
// part of the input.
var anthropicMessages = format{
	talk:         map[string]ItemKind{"messages[]": Asked, "system": Instructions, "tools": Tools},
	requestValue: anthropicRequest,
	bound: func(_ *Request, members map[string]json.RawMessage, most int64) bool {
		return lower(members, most, "max_tokens")
	},
	count: func(_ *Request, members map[string]json.RawMessage) (string, any) {
		return anthropicCount, only(members, "model", "messages", "system", "tools", "tool_choice", "thinking")
	},
	items: anthropicItems, write: anthropicWrite, repeatsThoughts: true,
	answerValue: anthropicAnswer, content: anthropicContent, setEnded: anthropicEnd, add: anthropicAdd,
	usage: func(c counts) (cost.Usage, string) {
		return cost.Usage{
			InputTokens: c.input.n, OutputTokens: c.output.n, CacheReadTokens: c.cacheRead.n,
			CacheWriteTokens: c.cacheWrite.n, ReasoningTokens: c.reasoning.n,
		}, ""
	},
	streamErrorName: "event: error\n",
}

func anthropicRequest(q *Request, path string, l leaf) {
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
		q.HourCache = q.HourCache || l.is("1h")
	case strings.HasSuffix(path, ".source.type") && (l.is("url") || l.is("file")), strings.HasSuffix(path, ".source.media_type") &&
		l.is("application/pdf"):
		q.refers(l, maxWindow)
	}
}

func anthropicAnswer(m *Meter, path string, l leaf) {
	if path == "type" {
		m.event = l.text()
	}
	path = strings.TrimPrefix(path, "message.") // of message_start
	if part, ok := strings.CutPrefix(path, "usage.iterations[]."); ok {
		if c := m.each.named(part); c != nil {
			c.add(l)
		}
		return
	}
	m.readUsage(path, l)
	switch path {
	case "usage.speed":
		m.tiers.speed = l.word()
	case "usage.inference_geo":
		m.tiers.place = l.word()
	case "stop_reason", "delta.stop_reason":
		m.stopped(l)
	default:
		m.readCommon(path, l)
	}
}

func anthropicContent(path string) bool {
	switch path {
	case "delta.text", "delta.partial_json", "delta.thinking", "content[].text", "content[].thinking":
		return true
	}
	return strings.HasPrefix(path, "content[].input.")
}

// anthropicEnd: the counts of an answer leave out parts that the provider has counted separately before
// it, like a summary of the conversation. So the parts are added.
func anthropicEnd(m *Meter) {
	c, parts := &m.counts, m.each
	c.input.atLeast(parts.input.n)
	c.cacheRead.atLeast(parts.cacheRead.n)
	c.cacheWrite.atLeast(parts.cacheWrite.n)
	c.cacheHour.atLeast(parts.cacheHour.n)
	c.output.atLeast(parts.output.n)
	m.facts.Ended = m.facts.Ended || m.event == "message_stop" || m.event == "message" && m.facts.Whole
}

type anthropicBlock struct {
	Type, Text, Thinking, Signature, Data, ID, Name string

	ToolUseID      string `json:"tool_use_id"`
	Input, Content json.RawMessage
	IsError        bool `json:"is_error"`
}

func (b anthropicBlock) item(kind ItemKind) Item {
	switch {
	case b.Type == "text":
		return Item{Kind: kind, Text: b.Text}
	case b.Type == "thinking":
		return Item{Kind: Thought, Text: b.Thinking, Signature: b.Signature}
	case b.Type == "redacted_thinking":
		return Item{Kind: Thought, Redacted: b.Data}
	case strings.HasSuffix(b.Type, "tool_use"):
		return Item{Kind: ToolCall, ID: b.ID, Name: b.Name, Text: string(b.Input)}
	case strings.HasSuffix(b.Type, "tool_result"):
		return Item{Kind: ToolResult, ID: b.ToolUseID, Text: TextOf(b.Content), Failed: b.IsError}
	}
	return Item{Kind: kind, Text: "(" + b.Type + ")"}
}

// anthropicBlocks splits a content into items: a text, or blocks.
func anthropicBlocks(kind ItemKind, content json.RawMessage) (items []Item) {
	var blocks []anthropicBlock
	if len(content) > 0 && content[0] == '[' && Decode(content, &blocks) {
		for _, b := range blocks {
			items = appendItem(items, b.item(kind))
		}
		return items
	}
	return appendItem(nil, Item{Kind: kind, Text: TextOf(content)})
}

type anthropicMessage struct {
	Role    string
	Content json.RawMessage
}

func anthropicItems(kind ItemKind, raw []byte) []Item {
	if kind == Instructions {
		return anthropicBlocks(kind, raw)
	}
	var m anthropicMessage
	Decode(raw, &m)
	return anthropicBlocks(kindOf(m.Role), m.Content)
}

func anthropicAdd(a *Answer, document []byte) {
	var e struct {
		anthropicMessage
		Type  string
		Index int
		Block anthropicBlock `json:"content_block"`
		Delta struct {
			Text, Thinking, Signature string
			PartialJSON               string `json:"partial_json"`
		}
	}
	Decode(document, &e)
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
		if g := a.write(place, Said, e.Delta.Text+e.Delta.Thinking+e.Delta.PartialJSON); g != nil {
			g.Signature += e.Delta.Signature
		}
	}
}

// anthropicWrite writes a request. The prompt is cached up to its end, and up to the preceding user
// message, which was the end of the previous call's prompt. So every call reads what the previous
// one has written. With tools and system, these are the four cache points that the provider
// allows.
func anthropicWrite(p Prompt, _ bool) any {
	type object = map[string]any
	cached := object{"type": "ephemeral"}
	var tools, messages []object
	for _, t := range p.Tools {
		tools = append(tools, object{"name": t.Name, "description": t.Description, "input_schema": t.schema()})
	}
	if len(tools) > 0 {
		tools[len(tools)-1]["cache_control"] = cached
	}
	for i, m := range p.Messages {
		var blocks []object
		for _, t := range m.Thinking {
			if t.Redacted != "" {
				blocks = append(blocks, object{"type": "redacted_thinking", "data": t.Redacted})
			} else {
				blocks = append(blocks, object{"type": "thinking", "thinking": t.Text, "signature": t.Signature})
			}
		}
		for _, r := range m.Results {
			blocks = append(blocks, object{"type": "tool_result", "tool_use_id": r.ID, "content": r.Text, "is_error": r.Error})
		}
		if m.Text != "" {
			blocks = append(blocks, object{"type": "text", "text": m.Text})
		}
		for _, c := range m.Calls {
			blocks = append(blocks, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(c.Arguments)})
		}
		if m.Role == User && i >= len(p.Messages)-3 { // the last two: roles alternate
			blocks[len(blocks)-1]["cache_control"] = cached
		}
		messages = append(messages, object{"role": m.Role, "content": blocks})
	}
	return object{
		"model": p.Model, "max_tokens": p.MaxOutput, "stream": true, "messages": messages, "tools": tools,
		"system": []object{{"type": "text", "text": p.System, "cache_control": cached}},
	}
}
