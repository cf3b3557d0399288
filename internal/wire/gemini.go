package wire

import (
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
// are apart from the answer. Keys may be written in either of two ways.
type geminiContent struct{}

func (geminiContent) ask(q *Request, path string, l leaf) {
	switch path {
	case "generationConfig.maxOutputTokens", "generationConfig.max_output_tokens",
		"generation_config.maxOutputTokens", "generation_config.max_output_tokens":
		q.bound("generationConfig.maxOutputTokens", l)
	case "generationConfig.candidateCount", "generationConfig.candidate_count",
		"generation_config.candidateCount", "generation_config.candidate_count":
		q.Choices = max(q.Choices, l.number())
	}
}

func (geminiContent) outputKey(*Request) string { return "maxOutputTokens" }

func (geminiContent) take(m *Meter, path string, l leaf) {
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
	case "usageMetadata.thoughtsTokenCount":
		m.counts.reasoning.set(l)
		m.counted = true
	case "candidates[].finishReason", "promptFeedback.blockReason":
		m.stopped(l)
	case "error.status":
		m.fault().Type = l.text()
	case "error.message":
		m.fault().Message = l.text()
	}
}

func (geminiContent) content(path string) bool {
	path = strings.TrimPrefix(path, "[].")
	return path == "candidates[].content.parts[].text" || strings.HasPrefix(path, "candidates[].content.parts[].functionCall.")
}

// ended: what a stream says last comes with the reason of its end, and nothing marks it.
func (geminiContent) ended(m *Meter) { m.facts.Ended = m.facts.Ended || m.facts.Whole && m.counted }

func (geminiContent) usage(c counts) usageOf {
	cached := min(c.cacheRead.n, c.input.n)
	return usageOf{
		input: c.input.n - cached + c.tools.n, output: c.output.n + c.reasoning.n, read: cached, reasoning: c.reasoning.n,
	}
}

// geminiCount is the path that counts tokens for the model of another path.
func geminiCount(path string) string {
	model, _, _ := strings.Cut(path, ":")
	return model + ":countTokens"
}
