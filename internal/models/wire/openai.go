package wire

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
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

// usageOfParts returns the usage of a provider whose counts may include each other. Cached tokens are a part
// of the input for OpenAI, and beside it for Anthropic; reasoning is a part of the output for OpenAI,
// and beside it for xAI. The reading that adds up to the provider's own total is right. If none does,
// it is the usual one, and differs says so. If the total is higher, the difference counts as output.
func usageOfParts(c counts) (u cost.Usage, differs string) {
	var readings []cost.Usage
	first := c.beside && !c.total.known
	for _, cacheBeside := range []bool{first, !first} {
		for _, reasoningBeside := range []bool{false, true} {
			cached := c.cacheRead.n + c.cacheWrite.n
			if !cacheBeside && cached > c.input.n || !reasoningBeside && c.reasoning.n > c.output.n {
				continue
			}
			r := cost.Usage{
				InputTokens: c.input.n, OutputTokens: c.output.n, CacheReadTokens: c.cacheRead.n,
				CacheWriteTokens: c.cacheWrite.n, ReasoningTokens: c.reasoning.n,
			}
			if !cacheBeside {
				r.InputTokens -= cached
			}
			if reasoningBeside {
				r.OutputTokens += r.ReasoningTokens
			}
			readings = append(readings, r)
		}
	}
	u = readings[0] // with both beside each other, there is always one
	for _, r := range readings {
		if r.Tokens() == c.total.n {
			return r, ""
		}
	}
	return upTo(u, c.total)
}

// upTo compares the usage with the provider's total. A higher one counts: the difference is output.
func upTo(u cost.Usage, total count) (cost.Usage, string) {
	sum := u.Tokens()
	if !total.known || total.n == sum || total.n == 0 {
		return u, ""
	}
	differs := fmt.Sprintf("the provider's total is %d tokens, and its parts add up to %d", total.n, sum)
	u.OutputTokens += max(total.n-sum, 0)
	return u, differs
}
