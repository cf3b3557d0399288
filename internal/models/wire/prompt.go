package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// Prompt is a request to a model in the form that all formats share.
type Prompt struct {
	Model  string `json:"model"`
	System string `json:"system"`
	Tools  []Tool `json:"tools"`
	// Messages alternate between roles. The first and the last are the user's.
	Messages []Message `json:"messages"`
	// MaxOutput bounds the tokens of the answer. It does not change the answer unless it cuts it
	// off, so it is not part of a request's digest.
	MaxOutput int64 `json:"-"`
}

// Tool is a tool that a model may call.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Properties are the JSON Schemas of the arguments; Required are the names of required
	// arguments.
	Properties map[string]any `json:"properties"`
	Required   []string       `json:"required,omitempty"`
}

// schema is the JSON Schema of the tool's arguments.
func (t Tool) schema() map[string]any {
	s := map[string]any{"type": "object", "properties": t.Properties}
	if len(t.Required) > 0 {
		s["required"] = t.Required
	}
	return s
}

// Role is the author of a message.
type Role string

// The roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one message of a conversation. An assistant's message has thinking, text and calls;
// a user's message has results and text, in this order.
type Message struct {
	Role     Role       `json:"role"`
	Thinking []Thinking `json:"thinking,omitempty"`
	Results  []Result   `json:"results,omitempty"`
	Text     string     `json:"text,omitempty"`
	Calls    []Call     `json:"calls,omitempty"`
}

// Thinking is a block of a model's thoughts. The provider requires it back unchanged.
type Thinking struct {
	Text      string `json:"text,omitempty"`
	Signature string `json:"signature,omitempty"`
	// Redacted is a block that only the provider can read.
	Redacted string `json:"redacted,omitempty"`
}

// Call is a tool call.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is a JSON object.
	Arguments string `json:"arguments"`
	// Broken is the arguments text of the model if it is not a JSON object.
	Broken string `json:"broken,omitempty"`
	// Masked: a secret in the arguments was masked.
	Masked bool `json:"masked,omitempty"`
}

// Result is the result of a tool call.
type Result struct {
	// ID is the ID of the call.
	ID   string `json:"id"`
	Text string `json:"text"`
	// Error: the tool failed.
	Error bool `json:"error,omitempty"`
}

// NewRequest returns the request with a prompt to a server of the API, with the key. baseURL is the parameter of [API.Base].
func (a API) NewRequest(baseURL, key string, p Prompt) (*http.Request, error) {
	d := a.described()
	request, err := http.NewRequest(http.MethodPost, a.Base(baseURL)+d.OwnPath, bytes.NewReader( //nolint:noctx // the caller adds it
		Encode(formats[d.Spoken].write(p, PublicOpenAI(baseURL)))))
	if err != nil {
		return nil, fmt.Errorf("base_url: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range d.headers {
		request.Header.Set(name, value)
	}
	a.Authorize(request.Header, key)
	return request, nil
}

// RepeatsThoughts reports whether a request has the model's earlier thoughts.
func (f Format) RepeatsThoughts() bool { return formats[f].repeatsThoughts }

// Encode encodes plain data as JSON, without HTML escapes.
func Encode(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(fmt.Sprintf("wire: a document is not plain data: %v", err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
