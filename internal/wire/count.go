package wire

import (
	"encoding/json"
	"slices"
)

// counted are the keys of a request that its provider takes where it only counts its tokens.
var counted = map[Format][]string{
	Messages:  {"model", "messages", "system", "tools", "tool_choice", "thinking"},
	Responses: {"model", "input", "instructions", "tools", "tool_choice", "previous_response_id", "conversation", "reasoning", "text", "truncation"},
}

// Count returns the free request by which the provider counts the tokens of the prompt: its
// path below [API.Base], and its body. Chat Completions have none.
func (q *Request) Count() (path string, body []byte, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(q.body, &members) != nil {
		return "", nil, false
	}
	var document any = members
	switch q.Format {
	case Messages, Responses:
		for name := range members {
			if !slices.Contains(counted[q.Format], name) {
				delete(members, name)
			}
		}
		path = "/v1/messages/count_tokens"
		if q.Format == Responses {
			path = "/responses/input_tokens"
		}
	case GenerateContent:
		members["model"], _ = json.Marshal("models/" + q.Model) // a text
		document = map[string]any{"generateContentRequest": members}
		path = geminiCount(q.Path)
	default:
		return "", nil, false
	}
	body, err := json.Marshal(document)
	return path, body, err == nil
}

// ReadCount reads the answer to such a request. No tokens are no answer.
func ReadCount(body []byte) int64 {
	var n int64
	s := scanner{leaf: func(path string, l leaf) {
		if path == "input_tokens" || path == "totalTokens" {
			n = max(l.number(), 0)
		}
	}}
	s.write(body)
	s.end()
	return n
}
