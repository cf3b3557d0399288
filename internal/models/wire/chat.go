package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// chatCompletions is OpenAI's Chat Completions, including that of compatible servers.
var chatCompletions = format{
	talk:         map[string]ItemKind{"messages[]": Asked, "tools": Tools},
	requestValue: chatRequest,
	bound: func(q *Request, members map[string]json.RawMessage, most int64) bool {
		return lower(members, most, chatBound(q.PublicOpenAI), "max_tokens", "max_completion_tokens")
	},
	asksUsage: true, items: chatItems, write: chatWrite,
	answerValue: chatAnswer, content: chatContent, add: chatAdd, usage: usageOfParts,
	setEnded: func(m *Meter) { // a stream has a separate line for its end
		m.facts.Ended = m.facts.Ended || m.facts.Whole && !m.lines.on
	},
}

// chatBound is the name of the bound of an answer.
func chatBound(publicOpenAI bool) string {
	if publicOpenAI {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

func chatRequest(q *Request, path string, l leaf) {
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
	}
}

func chatAnswer(m *Meter, path string, l leaf) {
	if m.readUsage(path, l) {
		return
	}
	switch path {
	case "[]": // the line [DONE] after a stream
		m.facts.Ended = m.facts.Ended || l.is("DONE") && m.lines.on
	case "choices[].finish_reason":
		m.stopped(l)
	case "choices[].native_finish_reason": // OpenRouter's word for what the provider behind it says
		m.failedBy(l)
	default:
		m.readCommon(path, l)
	}
}

// readError reads a value of an error within an answer. Some servers put it into the choice. MiniMax has a code in each
// answer, which is 0 for one without an error.
func (m *Meter) readError(path string, l leaf) {
	path = strings.TrimPrefix(path, "choices[].")
	if code, ok := strings.CutPrefix(path, "base_resp.status_"); ok && (code == "code" && l.number() != 0 || code == "msg" &&
		m.facts.Fault != nil) {
		m.fault().take(path, l)
	}
	if !strings.HasPrefix(path, "error.") && (path != "error" || !l.quoted) || !l.quoted && l.is("null") {
		return
	}
	m.fault().take(path, l)
}

func chatContent(path string) bool {
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
	items = appendItem(items, Item{Kind: kind, ID: m.ToolCallID, Text: TextOf(m.Content)})
	items = appendItem(items, Item{Kind: Declined, Text: m.Refusal})
	for _, c := range m.ToolCalls {
		items = append(items, c.item())
	}
	return items
}

func chatItems(_ ItemKind, raw []byte) []Item {
	var m chatMessage
	Decode(raw, &m)
	return m.items(kindOf(m.Role))
}

func chatAdd(a *Answer, document []byte) {
	var chunk struct {
		Choices []struct {
			Index          int
			Message, Delta chatMessage
		}
	}
	Decode(document, &chunk)
	for _, c := range chunk.Choices {
		a.add(c.Message.items(Said)...)
		d := c.Delta
		a.write(fmt.Sprint(c.Index, Thought), Thought, d.Reasoning+d.ReasonedAs)
		a.write(fmt.Sprint(c.Index, Said), Said, TextOf(d.Content))
		a.write(fmt.Sprint(c.Index, Declined), Declined, d.Refusal)
		for _, call := range d.ToolCalls {
			chatAddCall(a, c.Index, call)
		}
	}
}

// chatAddCall adds a part of a tool call. Servers give every call the same index, or none, or the same id, or each part an
// id of its own. A part without a name continues the call with its id, or else the one at its index. A part with a name
// continues a call only if nothing tells the two apart.
func chatAddCall(a *Answer, choice int, call chatCall) {
	it := call.item()
	place, named := fmt.Sprint(choice, call.Index, ToolCall), fmt.Sprint(choice, ToolCall, it.ID)
	g, known := a.places[place], a.places[named]
	switch {
	case it.ID != "" && known != nil && (it.Name == "" || g == known):
		g = known
	case g != nil && it.Name != "":
		apart := it.ID != "" && g.ID != "" || g.Name != "" && (it.Name != g.Name || g.text.Len() > 0 || it.ID != "")
		if apart {
			g = nil
		}
	}
	if g == nil {
		g = &growing{Item: Item{Kind: ToolCall}}
		a.all = append(a.all, g)
	}
	a.places[place] = g
	g.ID, g.Name = cmp.Or(g.ID, it.ID), cmp.Or(g.Name, it.Name)
	if known == nil {
		a.places[named] = g
	}
	g.text.WriteString(it.Text)
}

// chatWrite writes a request.
func chatWrite(p Prompt, publicOpenAI bool) any {
	type object = map[string]any
	messages := []object{{"role": "system", "content": p.System}}
	for _, m := range p.Messages {
		for _, r := range m.Results {
			text := r.Text
			if r.Error { // the format has no field for it
				text = "Error: " + text
			}
			messages = append(messages, object{"role": "tool", "tool_call_id": r.ID, "content": text})
		}
		one := object{"role": m.Role}
		if m.Text != "" {
			one["content"] = m.Text
		}
		var calls []object
		for _, c := range m.Calls {
			calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
		}
		if len(calls) > 0 {
			one["tool_calls"] = calls
		}
		if len(one) > 1 {
			messages = append(messages, one)
		}
	}
	var tools []object
	for _, t := range p.Tools {
		tools = append(tools, object{"type": "function", "function": object{
			"name": t.Name, "description": t.Description,
			"parameters": t.schema(),
		}})
	}
	return object{
		"model": p.Model, "stream": true, "stream_options": object{"include_usage": true}, chatBound(publicOpenAI): p.MaxOutput,
		"messages": messages, "tools": tools,
	}
}
