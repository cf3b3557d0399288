package wire

import (
	"net/http"
	"strings"
	"time"
)

// openaiAPI is the API of OpenAI, including that of compatible servers. It has two formats: Chat Completions and Responses.
var openaiAPI = description{
	Programs: Programs{
		OwnPath: "/chat/completions", BaseURL: "OPENAI_BASE_URL", Key: "OPENAI_API_KEY", Others: []string{"CODEX_API_KEY"},
		WebSearch: DefaultWebSearch, Spoken: ChatCompletions,
	},
	base: "https://api.openai.com/v1", clientPath: "/v1",
	keyHeader: "Authorization", keyPrefix: "Bearer ",
	route: func(method, path string) (Route, bool) {
		path = strings.TrimPrefix(path, "/v1") // part of the address that routes are below
		switch {
		case method == http.MethodPost && path == "/chat/completions":
			return Route{Path: path, Format: ChatCompletions}, true
		case method == http.MethodPost && (path == "/responses" || path == "/responses/compact"):
			return Route{Path: path, Format: Responses}, true
		case method == http.MethodPost && path == responsesCount:
			return Route{Path: path}, true
		}
		return Route{Path: path}, lists(method, path, "/models")
	},
	refusals: map[Refusal]words{
		BudgetSpent:  {http.StatusTooManyRequests, "insufficient_quota"},
		RateLimited:  {http.StatusTooManyRequests, "rate_limit_exceeded"},
		Overloaded:   {http.StatusServiceUnavailable, "server_is_overloaded"},
		Unauthorized: {http.StatusUnauthorized, "invalid_api_key"},
		NotFound:     {http.StatusNotFound, "not_found"},
		Invalid:      {http.StatusBadRequest, "invalid_request_error"},
		TooLarge:     {http.StatusRequestEntityTooLarge, "request_too_large"},
	},
	errorBody: func(w words, message string, _ time.Duration) any {
		return map[string]any{"error": map[string]any{"message": message, "type": w.kind, "param": nil, "code": w.kind}}
	},
}
