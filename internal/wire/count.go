package wire

import (
	"encoding/json"
	"slices"
)

// counted are the request keys that a provider accepts in a request that only counts tokens.
var counted = map[Format][]string{
	Messages:  {"model", "messages", "system", "tools", "tool_choice", "thinking"},
	Responses: {"model", "input", "instructions", "tools", "tool_choice", "previous_response_id", "conversation", "reasoning", "text", "truncation"},
}

// Count returns the free request with which the provider counts the tokens of the prompt: its
// path below [API.Base], and its body. ok is false for Chat Completions, which have no such
// request.
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

// ReadCount returns the number of tokens in the answer to such a request; zero if there is none.
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
