package providertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// geminiAPI is Gemini's generateContent, as its callers see it with and without alt=sse.
type geminiAPI struct {
	model    string
	streamed bool
}

// gemini answers what the path names after its colon.
func (s *Server) gemini(w http.ResponseWriter, r *http.Request) {
	model, verb, _ := strings.Cut(r.PathValue("call"), ":")
	switch verb {
	case "generateContent", "streamGenerateContent":
		s.call(geminiAPI{model, verb == "streamGenerateContent"})(w, r)
	case "countTokens":
		s.note(r)
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"totalTokens": len(body) / bytesPerToken})
	default:
		s.other(w, r)
	}
}

func (g geminiAPI) parse(body []byte, into *Request) error {
	var in struct {
		SystemInstruction geminiContent   `json:"systemInstruction"`
		Contents          []geminiContent `json:"contents"`
		GenerationConfig  struct {
			MaxOutputTokens int64 `json:"maxOutputTokens"`
		} `json:"generationConfig"`
		Tools []struct {
			FunctionDeclarations []struct {
				Name string `json:"name"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	into.Model, into.Stream, into.IncludeUsage = g.model, g.streamed, true
	into.MaxTokens = in.GenerationConfig.MaxOutputTokens
	for _, p := range in.SystemInstruction.Parts {
		into.System += p.Text
	}
	for _, t := range in.Tools {
		for _, f := range t.FunctionDeclarations {
			into.Tools = append(into.Tools, f.Name)
		}
	}
	for _, c := range in.Contents {
		into.Messages = append(into.Messages, c.message())
	}
	return nil
}

type geminiContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text         string `json:"text"`
		FunctionCall *struct {
			ID, Name string
			Args     json.RawMessage
		} `json:"functionCall"`
		FunctionResponse *struct {
			ID, Name string
			Response json.RawMessage
		} `json:"functionResponse"`
	} `json:"parts"`
}

func (c geminiContent) message() Message {
	m := Message{Role: c.Role}
	if m.Role == "model" {
		m.Role = "assistant"
	}
	for _, p := range c.Parts {
		m.Text += p.Text
		if call := p.FunctionCall; call != nil {
			m.Calls = append(m.Calls, Call{ID: call.ID, Name: call.Name, Arguments: string(call.Args)})
		}
		if result := p.FunctionResponse; result != nil {
			m.Results = append(m.Results, Result{ID: cmp.Or(result.ID, result.Name), Text: string(result.Response)})
		}
	}
	return m
}

func (geminiAPI) candidate(r Reply, parts []any, finish string) map[string]any {
	out := map[string]any{"content": map[string]any{"role": "model", "parts": parts}, "index": 0}
	if finish != "" {
		out["finishReason"] = finish
		queries := []string{""} // which is not charged
		for i := range r.said().WebSearches {
			queries = append(queries, fmt.Sprint("query ", i))
		}
		out["groundingMetadata"] = map[string]any{"webSearchQueries": queries}
	}
	return out
}

// usage counts cached tokens as part of the prompt, and thoughts apart from the answer.
func (geminiAPI) usage(r Reply) map[string]any {
	u := r.said()
	in := u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens
	return map[string]any{
		"promptTokenCount": in, "cachedContentTokenCount": u.CacheReadTokens,
		"candidatesTokenCount": u.OutputTokens - u.ReasoningTokens,
		"thoughtsTokenCount":   u.ReasoningTokens, "totalTokenCount": in + u.OutputTokens,
	}
}

func (geminiAPI) finish(r Reply) string {
	return map[Stop]string{Done: "STOP", Calls: "STOP", Truncated: "MAX_TOKENS", Refused: "SAFETY"}[r.stop()]
}

func (g geminiAPI) document(of Request, r Reply, parts []any, finish string) map[string]any {
	out := map[string]any{
		"candidates": []any{g.candidate(r, parts, finish)}, "modelVersion": of.Model, "responseId": fmt.Sprintf("resp_%d", of.N),
	}
	if finish != "" && !r.Fault.NoUsage {
		out["usageMetadata"] = g.usage(r)
	}
	return out
}

func (geminiAPI) calls(r Reply) []any {
	var parts []any
	for _, c := range r.Calls {
		parts = append(parts, map[string]any{"functionCall": map[string]any{"name": c.Name, "args": json.RawMessage(c.Arguments)}})
	}
	return parts
}

func (g geminiAPI) whole(of Request, r Reply) any {
	var parts []any
	if r.Text != "" {
		parts = append(parts, map[string]any{"text": r.Text})
	}
	return g.document(of, r, append(parts, g.calls(r)...), g.finish(r))
}

func (g geminiAPI) stream(of Request, r Reply) []event {
	var out []event
	if r.Text != "" {
		for _, p := range pieces(r.Text) {
			out = append(out, event{data: g.document(of, r, []any{map[string]any{"text": p}}, "")})
		}
	}
	last := g.calls(r)
	if last == nil {
		last = []any{map[string]any{"text": ""}}
	}
	return append(out, event{data: g.document(of, r, last, g.finish(r))})
}

func (g geminiAPI) inStream(f Fault) event { return event{data: g.failure(f)} }

// failure: a wrong key and a prompt that is too long are both a 400.
func (geminiAPI) failure(f Fault) any {
	status := map[int]string{
		http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND",
		http.StatusTooManyRequests: "RESOURCE_EXHAUSTED", http.StatusInternalServerError: "INTERNAL",
		http.StatusServiceUnavailable: "UNAVAILABLE",
	}[f.Status]
	message, details := f.Message, []any{}
	if f.Code == "context_length_exceeded" {
		message = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
	}
	if f.RetryAfter != "" {
		details = append(details, map[string]any{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f.RetryAfter + "s"})
	}
	return map[string]any{"error": map[string]any{
		"code": f.Status, "status": cmp.Or(status, "INVALID_ARGUMENT"), "message": message, "details": details,
	}}
}
