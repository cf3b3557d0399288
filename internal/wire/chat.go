package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

func routeOpenAI(method, path string) (Route, bool) {
	path = strings.TrimPrefix(path, "/v1") // part of the address that routes are below
	switch {
	case method == http.MethodPost && path == "/chat/completions":
		return Route{Path: path, Format: ChatCompletions}, true
	case method == http.MethodPost && (path == "/responses" || path == "/responses/compact"):
		return Route{Path: path, Format: Responses}, true
	case method == http.MethodPost && path == "/responses/input_tokens", read(method) && path == "/models":
		return Route{Path: path}, true
	}
	_, one := below(path, "/models/")
	return Route{Path: path}, one && read(method)
}

// chatCompletions is OpenAI's Chat Completions, including that of compatible servers.
type chatCompletions struct{}

func (chatCompletions) requestValue(q *Request, path string, l leaf) {
	switch path {
	case "max_tokens", "max_completion_tokens":
		q.bound(path, l)
	case "messages[].content[].image_url.url":
		q.refers(l, maxImage)
	case "messages[].content[].file.file_id":
		q.refers(l, maxWindow)
	case "n":
		q.Choices = max(q.Choices, l.number())
	case "stream_options.include_usage":
		q.usageAsked = l.is("true")
		q.usageAt = span{l.start, l.start + int64(len(l.raw))}
	}
}

func (chatCompletions) outputKey(q *Request) string {
	if q.PublicOpenAI {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

func (chatCompletions) answerValue(m *Meter, path string, l leaf) {
	if m.readUsage(path, l) {
		return
	}
	switch path {
	case "[]": // the line [DONE] after a stream
		m.facts.Ended = m.facts.Ended || l.is("DONE") && m.lines.on
	case "service_tier":
		m.tiers[0] = l.word()
	case "choices[].finish_reason":
		m.stopped(l)
	case "choices[].native_finish_reason": // OpenRouter's word for what the provider behind it says
		m.failedBy(l)
	default:
		m.readError(path, l)
	}
}

// readError reads a value of an error within an answer. Some servers put it into the choice. MiniMax has a code in each
// answer, which is 0 for one without an error.
func (m *Meter) readError(path string, l leaf) {
	path = strings.TrimPrefix(path, "choices[].")
	if code, ok := strings.CutPrefix(path, "base_resp.status_"); ok && (code == "code" && l.number() != 0 || code == "msg" && m.facts.Fault != nil) {
		m.fault().take(path, l)
	}
	if !strings.HasPrefix(path, "error.") && (path != "error" || !l.quoted) || !l.quoted && l.is("null") {
		return
	}
	m.fault().take(path, l)
}

func (chatCompletions) content(path string) bool {
	rest, ok := strings.CutPrefix(path, "choices[].")
	if !ok {
		return false
	}
	if rest, ok = strings.CutPrefix(rest, "delta."); !ok {
		rest, ok = strings.CutPrefix(rest, "message.")
	}
	switch rest {
	case "content", "refusal", "reasoning", "reasoning_content", "tool_calls[].function.arguments", "tool_calls[].custom.input":
		return ok
	}
	return false
}

// setEnded: a stream has a separate line for its end.
func (chatCompletions) setEnded(m *Meter) {
	m.facts.Ended = m.facts.Ended || m.facts.Whole && !m.lines.on
}

func (chatCompletions) usage(c counts) (usageOf, string) { return usageOfParts(c) }

type chatMessage struct {
	Role, Refusal, Reasoning string

	Content    json.RawMessage
	ReasonedAs string     `json:"reasoning_content"`
	ToolCallID string     `json:"tool_call_id"`
	ToolCalls  []chatCall `json:"tool_calls"`
}

type chatCall struct {
	Index    int
	ID       string
	Function struct{ Name, Arguments string }
	Custom   struct{ Name, Input string }
}

func (c chatCall) item() Item {
	return Item{Kind: ToolCall, ID: c.ID, Name: c.Function.Name + c.Custom.Name, Text: c.Function.Arguments + c.Custom.Input}
}

func (m chatMessage) items(kind ItemKind) []Item {
	items := appendItem(nil, Item{Kind: Thought, Text: m.Reasoning + m.ReasonedAs})
	items = appendItem(items, Item{Kind: kind, ID: m.ToolCallID, Text: textOf(m.Content) + m.Refusal})
	for _, c := range m.ToolCalls {
		items = append(items, c.item())
	}
	return items
}

func (chatCompletions) items(_ ItemKind, raw []byte) []Item {
	var m chatMessage
	decode(raw, &m)
	return m.items(kindOf(m.Role))
}

func (chatCompletions) addDocument(a *answer, document []byte) {
	var chunk struct {
		Choices []struct {
			Index          int
			Message, Delta chatMessage
		}
	}
	decode(document, &chunk)
	for _, c := range chunk.Choices {
		a.add(c.Message.items(Said)...)
		d := c.Delta
		a.write(fmt.Sprint(c.Index, Thought), Thought, d.Reasoning+d.ReasonedAs)
		a.write(fmt.Sprint(c.Index, Said), Said, textOf(d.Content)+d.Refusal)
		for _, call := range d.ToolCalls {
			it := call.item()
			g := a.at(fmt.Sprint(c.Index, call.Index, ToolCall), Item{Kind: ToolCall, ID: it.ID, Name: it.Name})
			g.text.WriteString(it.Text)
		}
	}
}
