package providertest

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// chatAPI is OpenAI's Chat Completions.
type chatAPI struct{}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (chatAPI) parse(body []byte, into *Request) error {
	var in struct {
		Model               string `json:"model"`
		Stream              bool   `json:"stream"`
		MaxTokens           int64  `json:"max_tokens"`
		MaxCompletionTokens int64  `json:"max_completion_tokens"`
		StreamOptions       struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		Messages []chatMessage `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	into.Model, into.Stream, into.IncludeUsage = in.Model, in.Stream, in.StreamOptions.IncludeUsage
	into.MaxTokens = max(in.MaxTokens, in.MaxCompletionTokens)
	for _, t := range in.Tools {
		into.Tools = append(into.Tools, t.Function.Name)
	}
	for i, m := range in.Messages {
		blocks, err := anthropicBlocks(m.Content) // the shape is the same
		if err != nil && string(m.Content) != "null" {
			return fmt.Errorf("messages[%d].content: %w", i, err)
		}
		text := texts(blocks)
		switch m.Role {
		case "system", "developer":
			into.System += text
		case "tool":
			into.result(Result{ID: m.ToolCallID, Text: text})
		default:
			message := Message{Role: m.Role, Text: text}
			for _, c := range m.ToolCalls {
				message.Calls = append(message.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
			}
			into.Messages = append(into.Messages, message)
		}
	}
	return answered(into.Messages)
}

// result adds a tool's result, one message for all that follow one another.
func (r *Request) result(result Result) {
	if last := len(r.Messages) - 1; last >= 0 && r.Messages[last].Role == "user" && len(r.Messages[last].Results) > 0 {
		r.Messages[last].Results = append(r.Messages[last].Results, result)
		return
	}
	r.Messages = append(r.Messages, Message{Role: "user", Results: []Result{result}})
}

func (c chatAPI) inStream(f Fault) event { return event{"", c.failure(f)} }

func (chatAPI) failure(f Fault) any { return openaiFailure(f) }

func openaiFailure(f Fault) any {
	var code any
	if f.Code != "" {
		code = f.Code
	}
	return map[string]any{"error": map[string]any{"message": f.Message, "type": f.Type, "param": nil, "code": code}}
}

// openaiUsage is the usage as OpenAI counts: cached tokens are part of the input
// and reasoning tokens are part of the output. Its names differ between its APIs.
func openaiUsage(r Reply, input, output string) any {
	if r.Fault.NoUsage {
		return nil
	}
	u := r.said()
	in := u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens
	return map[string]any{
		input: in, output: u.OutputTokens, "total_tokens": in + u.OutputTokens,
		input + "_details":  map[string]any{"cached_tokens": u.CacheReadTokens},
		output + "_details": map[string]any{"reasoning_tokens": u.ReasoningTokens},
	}
}

func (chatAPI) finishReason(r Reply) string {
	return map[Stop]string{Done: "stop", Calls: "tool_calls", Truncated: "length", Refused: "content_filter"}[r.stop()]
}

// toolCall is a call as a message has it.
func (chatAPI) toolCall(of Request, r Reply, i int, arguments string) map[string]any {
	return map[string]any{
		"type": "function", "id": r.id("call_", of, i), "function": map[string]any{"name": r.Calls[i].Name, "arguments": arguments},
	}
}

func (c chatAPI) whole(of Request, r Reply) any {
	message := map[string]any{"role": "assistant", "content": r.Text, "refusal": nil}
	var calls []any
	for i, call := range r.Calls {
		calls = append(calls, c.toolCall(of, r, i, call.Arguments))
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return map[string]any{
		"id": fmt.Sprintf("chatcmpl-%d", of.N), "object": "chat.completion", "created": 1, "model": of.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": c.finishReason(r)}},
		"usage":   openaiUsage(r, "prompt_tokens", "completion_tokens"), "service_tier": cmp.Or(r.Tier, "default"),
	}
}

func (c chatAPI) stream(of Request, r Reply) []event {
	var out []event
	chunk := func(choices []any, usage any) {
		data := map[string]any{
			"id": fmt.Sprintf("chatcmpl-%d", of.N), "object": "chat.completion.chunk", "created": 1, "model": of.Model, "choices": choices,
			"service_tier": cmp.Or(r.Tier, "default"),
		}
		if usage != nil {
			data["usage"] = usage
		}
		out = append(out, event{data: data})
	}
	delta := func(d map[string]any) {
		chunk([]any{map[string]any{"index": 0, "delta": d, "finish_reason": nil}}, nil)
	}
	delta(map[string]any{"role": "assistant", "content": ""})
	if r.Text != "" {
		for _, p := range pieces(r.Text) {
			delta(map[string]any{"content": p})
		}
	}
	for i, call := range r.Calls {
		first := c.toolCall(of, r, i, "")
		first["index"] = i
		delta(map[string]any{"tool_calls": []any{first}})
		for _, p := range pieces(call.Arguments) {
			delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": p}}}})
		}
	}
	chunk([]any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": c.finishReason(r)}}, nil)
	if of.IncludeUsage && !r.Fault.NoUsage {
		chunk([]any{}, openaiUsage(r, "prompt_tokens", "completion_tokens"))
	}
	return append(out, event{data: "[DONE]"})
}
