package providertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// anthropicAPI is Anthropic's Messages.
type anthropicAPI struct{}

// anthropicBlock is a block of content, of any type.
type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (anthropicAPI) parse(body []byte, into *Request) error {
	var in struct {
		Model     string          `json:"model"`
		MaxTokens int64           `json:"max_tokens"`
		Stream    bool            `json:"stream"`
		System    json.RawMessage `json:"system"`
		Tools     []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	into.Model, into.MaxTokens, into.Stream, into.IncludeUsage = in.Model, in.MaxTokens, in.Stream, true
	for _, t := range in.Tools {
		into.Tools = append(into.Tools, t.Name)
	}
	system, err := anthropicBlocks(in.System)
	if err != nil {
		return fmt.Errorf("system: %w", err)
	}
	into.System = texts(system)
	for i, m := range in.Messages {
		blocks, err := anthropicBlocks(m.Content)
		if err != nil {
			return fmt.Errorf("messages[%d].content: %w", i, err)
		}
		message := Message{Role: m.Role, Text: texts(blocks)}
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				message.Calls = append(message.Calls, Call{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
			case "tool_result":
				content, err := anthropicBlocks(b.Content)
				if err != nil {
					return fmt.Errorf("messages[%d]: the result's content: %w", i, err)
				}
				message.Results = append(message.Results, Result{ID: b.ToolUseID, Text: texts(content), Error: b.IsError})
			}
		}
		into.Messages = append(into.Messages, message)
	}
	return answered(into.Messages)
}

// answered refuses what the provider refuses: a tool call that the message after
// it does not answer.
func answered(messages []Message) error {
	for i, m := range messages {
		for _, c := range m.Calls {
			found := false
			for j := i + 1; j < len(messages) && messages[j].Role == "user"; j++ {
				for _, r := range messages[j].Results {
					found = found || r.ID == c.ID
				}
			}
			if !found {
				return fmt.Errorf("messages[%d]: the tool call %s has no result right after it", i, c.ID)
			}
		}
	}
	return nil
}

// anthropicBlocks reads content, which is a text or a list of blocks.
func anthropicBlocks(data json.RawMessage) ([]anthropicBlock, error) {
	if len(data) == 0 {
		return nil, nil
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}, nil
	}
	var blocks []anthropicBlock
	err := json.Unmarshal(data, &blocks)
	return blocks, err
}

func texts(blocks []anthropicBlock) string {
	var out []string
	for _, b := range blocks {
		if b.Type == "text" {
			out = append(out, b.Text)
		}
	}
	return strings.Join(out, "\n")
}

func (a anthropicAPI) inStream(f Fault) event { return event{"error", a.failure(f)} }

func (anthropicAPI) failure(f Fault) any {
	return map[string]any{"type": "error", "error": map[string]any{"type": f.Type, "message": f.Message}, "request_id": "req_test"}
}

func (anthropicAPI) stopReason(r Reply) string {
	return map[Stop]string{Done: "end_turn", Calls: "tool_use", Truncated: "max_tokens", Refused: "refusal"}[r.stop()]
}

// message is the answer without its content; output is what it has cost so far.
func (anthropicAPI) message(of Request, r Reply, output int64) map[string]any {
	said := r.said()
	out := map[string]any{
		"id": fmt.Sprintf("msg_%d", of.N), "type": "message", "role": "assistant", "model": of.Model,
		"content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{
			"input_tokens": said.InputTokens, "output_tokens": output,
			"cache_read_input_tokens": said.CacheReadTokens, "cache_creation_input_tokens": said.CacheWriteTokens,
			"cache_creation": map[string]any{
				"ephemeral_5m_input_tokens": said.CacheWriteTokens - said.CacheWrite1hTokens,
				"ephemeral_1h_input_tokens": said.CacheWrite1hTokens,
			},
			"server_tool_use": map[string]any{"web_search_requests": said.WebSearches, "web_fetch_requests": said.WebSearches},
			"service_tier":    cmp.Or(r.Tier, "standard"), "inference_geo": "not_available",
		},
	}
	if r.Fault.NoUsage {
		delete(out, "usage")
	}
	return out
}

func (a anthropicAPI) whole(of Request, r Reply) any {
	content := []any{}
	if r.Thinking != "" {
		content = append(content, map[string]any{"type": "thinking", "thinking": r.Thinking, "signature": "c2lnbmF0dXJl"})
	}
	if r.Text != "" {
		content = append(content, map[string]any{"type": "text", "text": r.Text})
	}
	for i, c := range r.Calls {
		content = append(content, map[string]any{
			"type": "tool_use", "id": r.id("toolu_", of, i), "name": c.Name,
			"input": json.RawMessage(c.Arguments),
		})
	}
	out := a.message(of, r, r.said().OutputTokens)
	out["content"], out["stop_reason"] = content, a.stopReason(r)
	return out
}

func (a anthropicAPI) stream(of Request, r Reply) []event {
	out := []event{{"message_start", map[string]any{"type": "message_start", "message": a.message(of, r, 1)}}}
	index := 0
	block := func(start map[string]any, deltas ...map[string]any) {
		out = append(out, event{"content_block_start", map[string]any{
			"type": "content_block_start", "index": index,
			"content_block": start,
		}})
		if index == 0 {
			out = append(out, event{"ping", map[string]any{"type": "ping"}})
		}
		for _, d := range deltas {
			out = append(out, event{"content_block_delta", map[string]any{"type": "content_block_delta", "index": index, "delta": d}})
		}
		out = append(out, event{"content_block_stop", map[string]any{"type": "content_block_stop", "index": index}})
		index++
	}
	if r.Thinking != "" {
		deltas := each(r.Thinking, func(s string) map[string]any { return map[string]any{"type": "thinking_delta", "thinking": s} })
		block(map[string]any{"type": "thinking", "thinking": "", "signature": ""},
			append(deltas, map[string]any{"type": "signature_delta", "signature": "c2lnbmF0dXJl"})...)
	}
	if r.Text != "" {
		block(map[string]any{"type": "text", "text": ""},
			each(r.Text, func(s string) map[string]any { return map[string]any{"type": "text_delta", "text": s} })...)
	}
	for i, c := range r.Calls {
		block(map[string]any{"type": "tool_use", "id": r.id("toolu_", of, i), "name": c.Name, "input": map[string]any{}},
			each(c.Arguments, func(s string) map[string]any { return map[string]any{"type": "input_json_delta", "partial_json": s} })...)
	}
	end := map[string]any{
		"type": "message_delta", "delta": map[string]any{"stop_reason": a.stopReason(r), "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": r.said().OutputTokens},
	}
	if r.Fault.NoUsage {
		delete(end, "usage")
	}
	return append(out, event{"message_delta", end}, event{"message_stop", map[string]any{"type": "message_stop"}})
}

// each makes a delta of every piece of a text.
func each(text string, delta func(string) map[string]any) []map[string]any {
	var out []map[string]any
	for _, p := range pieces(text) {
		out = append(out, delta(p))
	}
	return out
}
