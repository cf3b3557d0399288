package wire

import (
	"cmp"
	"encoding/json"
	"strings"
)

const responsesCount = "/responses/input_tokens"

// openaiResponses is OpenAI's Responses.
var openaiResponses = format{
	talk:         map[string]ItemKind{"input": Asked, "input[]": Asked, "instructions": Instructions, "tools": Tools},
	requestValue: responsesRequest,
	bound: func(_ *Request, members map[string]json.RawMessage, most int64) bool {
		return lower(members, most, "max_output_tokens")
	},
	count: func(_ *Request, members map[string]json.RawMessage) (string, any) {
		return responsesCount, only(members, "model", "input", "instructions", "tools", "tool_choice", "previous_response_id",
			"conversation", "reasoning", "text", "truncation")
	},
	items:       responsesItems,
	answerValue: responsesAnswer, content: responsesContent, setEnded: responsesEnd, add: responsesAdd, usage: usageOfParts,
	streamErrorName: "event: error\n",
	streamErrorBody: func(w words, message string) any {
		return map[string]any{"type": "error", "code": w.kind, "message": message, "param": nil}
	},
}

func responsesRequest(q *Request, path string, l leaf) {
	switch path {
	case "max_output_tokens":
		q.bound(path, l)
	case "previous_response_id", "conversation", "conversation.id", "prompt.id":
		q.refers(l, maxWindow)
	case "input[].type":
		if l.is("item_reference") {
			q.refers(l, maxWindow)
		}
	case "tools[].type":
		if l.is("file_search") || l.is("code_interpreter") || l.is("image_generation") {
			q.Unpriced = l.text()
		}
	case "background":
		if l.is("true") { // its answer is fetched by other requests, which count nothing
			q.Refused = "background responses are not supported by the gateway"
		}
	}
	switch {
	case strings.HasSuffix(path, "[].image_url"):
		q.refers(l, maxImage)
	case strings.HasSuffix(path, "[].file_id"), strings.HasSuffix(path, "[].file_url"):
		q.refers(l, maxWindow)
	}
}

func responsesAnswer(m *Meter, path string, l leaf) {
	if path == "type" {
		m.event = l.text()
	}
	// Events of a stream have the response, or an error, as a part; a whole answer is one.
	if rest, ok := strings.CutPrefix(path, "response."); ok {
		path = rest
	} else if m.lines.on && strings.HasPrefix(path, "usage.") {
		return
	}
	if m.readUsage(path, l) {
		return
	}
	switch path {
	case "output[].action.type", "item.action.type": // opening a page that was found is free
		if l.is("search") {
			m.searched++
		}
	case "status":
		if l.is("completed") || l.is("incomplete") {
			m.stopped(l)
		}
	case "object":
		if l.is("response.compaction") { // it has no status
			m.stopped(l)
		}
	default:
		m.readCommon(path, l)
	}
}

func responsesContent(path string) bool {
	switch path {
	case "delta", "output[].content[].text", "output[].content[].refusal", "output[].arguments", "output[].input",
		"output[].summary[].text":
		return true
	}
	return false
}

func responsesEnd(m *Meter) {
	switch m.event {
	case "response.output_item.done":
		m.counts.searches.atLeast(m.counts.searches.n + m.searched)
	case "response.completed", "response.incomplete", "response.failed":
		m.facts.Ended = true
		m.counts.searches.atLeast(m.searched)
	case "":
		m.counts.searches.atLeast(m.searched)
		m.facts.Ended = m.facts.Ended || m.facts.Whole && !m.lines.on
	}
}

type responsesItem struct {
	Type, Role, ID, Name, Arguments, Input string

	CallID  string `json:"call_id"`
	Content json.RawMessage
	Output  json.RawMessage
	Action  json.RawMessage
	Summary json.RawMessage
}

func (i responsesItem) item() Item {
	switch {
	case i.Type == "message" || i.Type == "" && i.Role != "":
		return Item{Kind: kindOf(i.Role), Text: TextOf(i.Content)}
	case i.Type == "reasoning":
		return Item{Kind: Thought, Text: TextOf(i.Summary)}
	case strings.HasSuffix(i.Type, "_call"):
		return Item{
			Kind: ToolCall, ID: cmp.Or(i.CallID, i.ID), Name: cmp.Or(i.Name, i.Type),
			Text: i.Arguments + i.Input + string(i.Action),
		}
	case strings.HasSuffix(i.Type, "_output"):
		return Item{Kind: ToolResult, ID: i.CallID, Text: TextOf(i.Output)}
	}
	return Item{Kind: Asked, Text: "(" + i.Type + ")"}
}

func responsesItems(kind ItemKind, raw []byte) []Item {
	if raw[0] == '"' {
		return appendItem(nil, Item{Kind: kind, Text: TextOf(raw)})
	}
	var i responsesItem
	Decode(raw, &i)
	return appendItem(nil, i.item())
}

func responsesAdd(a *Answer, document []byte) {
	var e struct {
		Type, Delta string
		ItemID      string `json:"item_id"`
		Item        responsesItem
		Output      []responsesItem
	}
	Decode(document, &e)
	for _, i := range e.Output { // no event
		a.add(appendItem(nil, i.item())...)
	}
	switch e.Type {
	case "response.output_text.delta":
		a.write(e.ItemID, Said, e.Delta)
	case "response.output_item.done":
		g := a.at(e.Item.ID, Item{})
		g.Item = e.Item.item()
		g.text.Reset()
	}
}
