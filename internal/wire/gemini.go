package wire

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
)

func routeGemini(method, path string) (Route, bool) {
	version, rest, _ := strings.Cut(path[1:], "/")
	if version != "v1" && version != "v1beta" && version != "v1alpha" {
		return Route{}, false
	}
	if read(method) && rest == "models" {
		return Route{Path: path}, true
	}
	name, ok := below(rest, "models/")
	model, verb, _ := strings.Cut(name, ":")
	if !ok || model == "" {
		return Route{}, false
	}
	switch {
	case method == http.MethodPost && (verb == "generateContent" || verb == "streamGenerateContent"):
		return Route{Path: path, Format: GenerateContent, Model: model, Stream: verb == "streamGenerateContent"}, true
	case method == http.MethodPost && verb == "countTokens", read(method) && !strings.Contains(name, ":"):
		return Route{Path: path}, true
	}
	return Route{}, false
}

// geminiContent is Gemini's generateContent. Cached tokens are part of the prompt, and thoughts
// are not part of the answer. Keys have two valid spellings.
type geminiContent struct{}

func (geminiContent) requestValue(q *Request, path string, l leaf) {
	switch path {
	case "generationConfig.maxOutputTokens", "generationConfig.max_output_tokens",
		"generation_config.maxOutputTokens", "generation_config.max_output_tokens":
		q.bound("generationConfig.maxOutputTokens", l)
	case "generationConfig.candidateCount", "generationConfig.candidate_count",
		"generation_config.candidateCount", "generation_config.candidate_count":
		q.Choices = max(q.Choices, l.number())
	case "cachedContent", "cached_content":
		q.refers(l, maxWindow)
	}
	if strings.HasSuffix(path, ".fileData.fileUri") || strings.HasSuffix(path, ".file_data.file_uri") {
		q.refers(l, maxWindow)
	}
}

func (geminiContent) outputKey(*Request) string { return "maxOutputTokens" }

func (geminiContent) answerValue(m *Meter, path string, l leaf) {
	path = strings.TrimPrefix(path, "[].") // a stream that is a list
	switch path {
	case "usageMetadata.promptTokenCount":
		m.counts.input.set(l)
	case "usageMetadata.toolUsePromptTokenCount":
		m.counts.tools.set(l)
	case "usageMetadata.cachedContentTokenCount":
		m.counts.cacheRead.set(l)
	case "usageMetadata.candidatesTokenCount":
		m.countOutput(l)
	case "usageMetadata.totalTokenCount":
		m.counts.total.set(l)
	case "usageMetadata.thoughtsTokenCount":
		m.counts.reasoning.set(l)
		m.counted = true
	case "candidates[].groundingMetadata.webSearchQueries[]":
		if l.size > 0 { // empty ones are not charged
			m.searched++
		}
	case "candidates[].finishReason", "promptFeedback.blockReason":
		m.stopped(l)
	default:
		m.readError(path, l)
	}
}

func (geminiContent) content(path string) bool {
	path = strings.TrimPrefix(path, "[].")
	return path == "candidates[].content.parts[].text" || strings.HasPrefix(path, "candidates[].content.parts[].functionCall.")
}

// setEnded: a stream has no separate marker; its last document has the reason of the end. Models
// before Gemini 3 charge one search for each prompt, however many queries it has.
func (geminiContent) setEnded(m *Meter) {
	m.facts.Ended = m.facts.Ended || m.facts.Whole && m.counted
	if strings.HasPrefix(m.facts.Model, "gemini-2") || strings.HasPrefix(m.facts.Model, "gemini-1") {
		m.searched = min(m.searched, 1)
	}
	m.counts.searches.atLeast(m.searched)
}

func (geminiContent) usage(c counts) (usageOf, string) {
	cached := min(c.cacheRead.n, c.input.n)
	u := usageOf{input: c.input.n - cached + c.tools.n, output: c.output.n + c.reasoning.n, read: cached, reasoning: c.reasoning.n}
	return u.upTo(c.total)
}

// geminiCount returns the path that counts tokens for the model of another path.
func geminiCount(path string) string {
	model, _, _ := strings.Cut(path, ":")
	return model + ":countTokens"
}

type geminiMessage struct {
	Role  string
	Parts []struct {
		Text         string
		Thought      bool
		FunctionCall *struct {
			ID, Name string
			Args     json.RawMessage
		}
		FunctionResponse *struct {
			ID, Name string
			Response json.RawMessage
		}
		InlineData, FileData struct{ MimeType string }
	}
}

func (m geminiMessage) items(kind ItemKind) (items []Item) {
	for _, p := range m.Parts {
		switch {
		case p.FunctionCall != nil:
			items = append(items, Item{Kind: ToolCall, ID: p.FunctionCall.ID, Name: p.FunctionCall.Name, Text: string(p.FunctionCall.Args)})
		case p.FunctionResponse != nil:
			items = append(items, Item{Kind: ToolResult, ID: p.FunctionResponse.ID, Name: p.FunctionResponse.Name, Text: geminiResult(p.FunctionResponse.Response)})
		case p.Thought:
			items = appendItem(items, Item{Kind: Thought, Text: p.Text})
		default:
			items = appendItem(items, Item{Kind: kind, Text: cmp.Or(p.Text, p.InlineData.MimeType, p.FileData.MimeType)})
		}
	}
	return items
}

// geminiResult returns the text of a tool's result. Most programs put it into the key output.
func geminiResult(raw json.RawMessage) string {
	var result struct{ Output string }
	if decode(raw, &result) && result.Output != "" {
		return result.Output
	}
	return string(raw)
}

func (geminiContent) items(kind ItemKind, raw []byte) []Item {
	var m geminiMessage
	decode(raw, &m)
	if kind == Asked {
		kind = kindOf(m.Role)
	}
	return m.items(kind)
}

// addDocument: a stream has a text in pieces, and other parts complete.
func (geminiContent) addDocument(a *answer, document []byte) {
	var chunk struct {
		Candidates []struct{ Content geminiMessage }
	}
	decode(document, &chunk)
	for _, c := range chunk.Candidates {
		for _, it := range c.Content.items(Said) {
			last := len(a.all) - 1
			if last < 0 || a.all[last].Kind != it.Kind || it.Kind == ToolCall {
				a.add(it)
				continue
			}
			a.all[last].text.WriteString(it.Text)
		}
	}
}
