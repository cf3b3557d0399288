package providertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// responsesAPI is OpenAI's Responses, as far as agent programs need it.
type responsesAPI struct{}

type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Input     string          `json:"input"`
	Output    json.RawMessage `json:"output"`
	// Tools are those of additional_tools: functions, custom tools, and namespaces of them.
	Tools []responsesTool `json:"tools"`
}

type responsesTool struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Tools []responsesTool `json:"tools"`
}

func (responsesAPI) parse(body []byte, into *Request) error {
	var in struct {
		Model           string          `json:"model"`
		Stream          bool            `json:"stream"`
		Instructions    string          `json:"instructions"`
		MaxOutputTokens int64           `json:"max_output_tokens"`
		Input           json.RawMessage `json:"input"`
		Tools           []responsesTool `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	into.Model, into.Stream, into.IncludeUsage = in.Model, in.Stream, true
	into.System, into.MaxTokens = in.Instructions, in.MaxOutputTokens
	into.tools(in.Tools)
	var text string
	if json.Unmarshal(in.Input, &text) == nil {
		into.Messages = []Message{{Role: "user", Text: text}}
		return nil
	}
	var items []responsesItem
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	for _, item := range items {
		into.item(item)
	}
	return nil
}

// tools adds the names of tools.
func (r *Request) tools(all []responsesTool) {
	for _, t := range all {
		if t.Tools != nil {
			r.tools(t.Tools)
			continue
		}
		r.Tools = append(r.Tools, cmp.Or(t.Name, t.Type)) // one of the provider's own has a type only
	}
}

// item adds one item of the input to the conversation.
func (r *Request) item(item responsesItem) {
	switch item.Type {
	case "additional_tools":
		r.tools(item.Tools)
	case "function_call", "custom_tool_call":
		call := Call{ID: item.CallID, Name: item.Name, Arguments: item.Arguments + item.Input}
		if last := len(r.Messages) - 1; last >= 0 && r.Messages[last].Role == "assistant" {
			r.Messages[last].Calls = append(r.Messages[last].Calls, call)
			return
		}
		r.Messages = append(r.Messages, Message{Role: "assistant", Calls: []Call{call}})
	case "function_call_output", "custom_tool_call_output":
		r.result(Result{ID: item.CallID, Text: responsesText(item.Output)})
	case "", "message":
		text := responsesText(item.Content)
		if item.Role == "system" || item.Role == "developer" {
			r.System += text
			return
		}
		r.Messages = append(r.Messages, Message{Role: item.Role, Text: text})
	}
}

// responsesText reads a text, or a list of parts that have one.
func responsesText(data json.RawMessage) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(data, &parts) // other shapes have no text
	var out []string
	for _, p := range parts {
		out = append(out, p.Text)
	}
	return strings.Join(out, "\n")
}

func (responsesAPI) inStream(f Fault) event {
	return event{"error", map[string]any{"type": "error", "code": f.Code, "message": f.Message, "param": nil}}
}

func (responsesAPI) failure(f Fault) any { return openaiFailure(f) }

// items is what the reply puts out.
func (responsesAPI) items(of Request, r Reply) []map[string]any {
	var out []map[string]any
	for i := range r.said().WebSearches { // opening what was found is free
		for _, action := range []string{"search", "open_page"} {
			out = append(out, map[string]any{
				"type": "web_search_call", "id": fmt.Sprintf("ws_%d_%d_%s", of.N, i, action), "status": "completed",
				"action": map[string]any{"type": action},
			})
		}
	}
	if r.Text != "" {
		part := map[string]any{"type": "output_text", "text": r.Text, "annotations": []any{}}
		if r.stop() == Refused {
			part = map[string]any{"type": "refusal", "refusal": r.Text}
		}
		out = append(out, map[string]any{
			"type": "message", "id": fmt.Sprintf("msg_%d", of.N), "role": "assistant", "status": "completed", "content": []any{part},
		})
	}
	for i, c := range r.Calls {
		if !strings.HasPrefix(c.Arguments, "{") { // the input of a custom tool is any text
			out = append(out, map[string]any{
				"type": "custom_tool_call", "id": fmt.Sprintf("ctc_%d_%d", of.N, i), "call_id": r.id("call_", of, i), "name": c.Name,
				"input": c.Arguments, "status": "completed",
			})
			continue
		}
		out = append(out, map[string]any{
			"type": "function_call", "id": fmt.Sprintf("fc_%d_%d", of.N, i), "call_id": r.id("call_", of, i),
			"name": c.Name, "arguments": c.Arguments, "status": "completed",
		})
	}
	return out
}

func (a responsesAPI) response(of Request, r Reply, status string) map[string]any {
	out := map[string]any{
		"id": fmt.Sprintf("resp_%d", of.N), "object": "response", "created_at": 1, "model": of.Model, "status": status,
		"output": []any{}, "usage": nil, "error": nil, "incomplete_details": nil,
		"service_tier": "auto",
	}
	if status != "in_progress" {
		out["output"], out["usage"] = a.items(of, r), openaiUsage(r, "input_tokens", "output_tokens")
		out["service_tier"] = cmp.Or(r.Tier, "default")
	}
	if status == "incomplete" {
		out["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
	}
	return out
}

func (a responsesAPI) whole(of Request, r Reply) any { return a.response(of, r, a.status(r)) }

func (responsesAPI) status(r Reply) string {
	if r.stop() == Truncated {
		return "incomplete"
	}
	return "completed"
}

func (a responsesAPI) stream(of Request, r Reply) []event {
	var out []event
	add := func(name string, data map[string]any) {
		data["type"], data["sequence_number"] = name, len(out)
		out = append(out, event{name, data})
	}
	add("response.created", map[string]any{"response": a.response(of, r, "in_progress")})
	for i, item := range a.items(of, r) {
		add("response.output_item.added", map[string]any{"output_index": i, "item": item})
		switch item["type"] {
		case "message":
			for _, p := range pieces(r.Text) {
				add("response.output_text.delta", map[string]any{"item_id": item["id"], "output_index": i, "content_index": 0, "delta": p})
			}
			add("response.output_text.done", map[string]any{"item_id": item["id"], "output_index": i, "content_index": 0, "text": r.Text})
		case "function_call":
			add("response.function_call_arguments.done", map[string]any{
				"item_id": item["id"], "output_index": i,
				"arguments": item["arguments"],
			})
		case "custom_tool_call":
			add("response.custom_tool_call_input.done", map[string]any{"item_id": item["id"], "output_index": i, "input": item["input"]})
		}
		add("response.output_item.done", map[string]any{"output_index": i, "item": item})
	}
	status := a.status(r)
	add("response."+status, map[string]any{"response": a.response(of, r, status)})
	return out
}
