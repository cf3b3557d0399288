package wire

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
)

// geminiAPI is the API of Gemini.
var geminiAPI = description{
	Programs: Programs{
		OwnPath: "/v1beta", BaseURL: "GOOGLE_GEMINI_BASE_URL", Key: "GEMINI_API_KEY",
		Others:    []string{"GOOGLE_API_KEY", "GOOGLE_GENAI_USE_GCA", "GOOGLE_GENAI_USE_VERTEXAI"},
		WebSearch: 35_000_000_000,
		Instead: "use preset gemini with `gateway: [%s]`, or Gemini's API for format openai: " +
			"`base_url: https://generativelanguage.googleapis.com/v1beta/openai`",
	},
	base:      "https://generativelanguage.googleapis.com",
	keyHeader: "X-Goog-Api-Key",
	route:     geminiRoute,
	// Programs retry a 429. So a spent budget gets Gemini's error for an account without billing.
	refusals: map[Refusal]words{
		BudgetSpent:  {http.StatusBadRequest, "FAILED_PRECONDITION"},
		RateLimited:  {http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"},
		Overloaded:   {http.StatusServiceUnavailable, "UNAVAILABLE"},
		Unauthorized: {http.StatusUnauthorized, "UNAUTHENTICATED"},
		NotFound:     {http.StatusNotFound, "NOT_FOUND"},
		Invalid:      {http.StatusBadRequest, "INVALID_ARGUMENT"},
		TooLarge:     {http.StatusRequestEntityTooLarge, "INVALID_ARGUMENT"},
	},
	errorBody: func(w words, message string, wait time.Duration) any {
		e := map[string]any{"code": w.status, "message": message, "status": w.kind}
		if wait > 0 {
			e["details"] = []any{map[string]any{
				"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%gs", math.Ceil(wait.Seconds())),
			}}
		}
		return map[string]any{"error": e}
	},
}

func geminiRoute(method, path string) (Route, bool) {
	version, rest, _ := strings.Cut(path[1:], "/")
	if version != "v1" && version != "v1beta" && version != "v1alpha" {
		return Route{}, false
	}
	model, verb, _ := strings.Cut(strings.TrimPrefix(rest, "models/"), ":")
	switch {
	case verb == "":
		return Route{Path: path}, !strings.Contains(rest, ":") && lists(method, rest, "models")
	case !strings.HasPrefix(rest, "models/") || strings.Contains(model, "/") || model == "" || method != http.MethodPost:
		return Route{}, false
	case verb == "generateContent" || verb == "streamGenerateContent":
		return Route{Path: path, Format: GenerateContent, Model: model, Stream: verb == "streamGenerateContent"}, true
	}
	return Route{Path: path}, verb == "countTokens"
}

// geminiContent is Gemini's generateContent. Cached tokens are part of the prompt, and thoughts
// are not part of the answer. Keys have two valid spellings.
var geminiContent = format{
	talk: map[string]ItemKind{
		"contents[]": Asked, "systemInstruction": Instructions, "system_instruction": Instructions,
		"tools": Tools,
	},
	requestValue: geminiRequest,
	requestObject: func(q *Request, path string) {
		switch path {
		case "generationConfig", "generation_config":
			q.once("generationConfig in both spellings")
		case "tools[].googleMaps", "tools[].google_maps":
			q.Unpriced = "googleMaps"
		}
	},
	bound: func(_ *Request, members map[string]json.RawMessage, most int64) bool {
		name := "generationConfig"
		if _, other := members["generation_config"]; other {
			name = "generation_config"
		}
		settings := membersOf(members[name])
		changed := lower(settings, most, "maxOutputTokens", "max_output_tokens")
		members[name] = Encode(settings)
		return changed
	},
	count: func(q *Request, members map[string]json.RawMessage) (string, any) {
		members["model"], _ = json.Marshal("models/" + q.Model) // a text
		path, _, _ := strings.Cut(q.Path, ":")
		return path + ":countTokens", map[string]any{"generateContentRequest": members}
	},
	items:       geminiItems,
	answerValue: geminiAnswer, content: geminiText, setEnded: geminiEnd, add: geminiAdd,
	usage: func(c counts) (cost.Usage, string) {
		cached := min(c.cacheRead.n, c.input.n)
		u := cost.Usage{
			InputTokens: c.input.n - cached + c.tools.n, OutputTokens: c.output.n + c.reasoning.n, CacheReadTokens: cached,
			ReasoningTokens: c.reasoning.n,
		}
		return upTo(u, c.total)
	},
	breaksOff: true, // Gemini CLI takes an error for the end
}

func geminiRequest(q *Request, path string, l leaf) {
	switch path {
	case "generationConfig", "generation_config": // no object: it counts as that spelling, too
		q.once("generationConfig in both spellings")
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

func geminiAnswer(m *Meter, path string, l leaf) {
	path = strings.TrimPrefix(path, "[].") // a stream that is a list
	if m.readUsage(path, l) {
		return
	}
	switch path {
	case "candidates[].groundingMetadata.webSearchQueries[]":
		if l.size > 0 { // empty ones are not charged
			m.searched++
		}
	case "candidates[].finishReason", "promptFeedback.blockReason":
		m.stopped(l)
	default:
		m.readCommon(path, l)
	}
}

func geminiText(path string) bool {
	path = strings.TrimPrefix(path, "[].")
	return path == "candidates[].content.parts[].text" || strings.HasPrefix(path, "candidates[].content.parts[].functionCall.")
}

// geminiEnd: a stream has no separate marker; its last document has the reason of the end. Models
// before Gemini 3 charge one search for each prompt, however many queries it has.
func geminiEnd(m *Meter) {
	m.facts.Ended = m.facts.Ended || m.facts.Whole && m.counted
	if strings.HasPrefix(m.facts.Model, "gemini-2") || strings.HasPrefix(m.facts.Model, "gemini-1") {
		m.searched = min(m.searched, 1)
	}
	m.counts.searches.atLeast(m.searched)
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
			items = append(items, Item{
				Kind: ToolCall, ID: p.FunctionCall.ID, Name: p.FunctionCall.Name,
				Text: string(p.FunctionCall.Args),
			})
		case p.FunctionResponse != nil:
			items = append(items, Item{
				Kind: ToolResult, ID: p.FunctionResponse.ID, Name: p.FunctionResponse.Name,
				Text: geminiResult(p.FunctionResponse.Response),
			})
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
	if Decode(raw, &result) && result.Output != "" {
		return result.Output
	}
	return string(raw)
}

func geminiItems(kind ItemKind, raw []byte) []Item {
	var m geminiMessage
	Decode(raw, &m)
	if kind == Asked {
		kind = kindOf(m.Role)
	}
	return m.items(kind)
}

// geminiAdd: a stream has a text in pieces, and other parts complete.
func geminiAdd(a *Answer, document []byte) {
	var chunk struct {
		Candidates []struct{ Content geminiMessage }
	}
	Decode(document, &chunk)
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
