package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/failures"
)

// TestFaultsOfEveryProvider is what providers and servers that are compatible
// with them say, each in its own way.
func TestFaultsOfEveryProvider(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault    Fault
		category failures.Category
		final    bool
	}{
		"Anthropic's overflow":         {Fault{Status: 400, Type: "invalid_request_error", Message: "prompt is too long: 210000 tokens > 200000 maximum"}, failures.ContextOverflow, false},
		"OpenAI's overflow":            {Fault{Status: 400, Code: "context_length_exceeded", Message: "too many"}, failures.ContextOverflow, false},
		"vLLM's overflow":              {Fault{Status: 400, Message: "This model's maximum context length is 4096 tokens."}, failures.ContextOverflow, false},
		"llama.cpp's overflow":         {Fault{Status: 400, Message: "the request exceeds the available context size"}, failures.ContextOverflow, false},
		"an overflow inside":           {Fault{Status: 200, Type: "invalid_request_error", Message: "prompt is too long"}, failures.ContextOverflow, false},
		"a body that is too large":     {Fault{Status: 413, Type: "request_too_large"}, failures.ContextOverflow, false},
		"a 500 that talks of contexts": {Fault{Status: 500, Message: "context length unknown"}, failures.APIError, false},
		"no credit":                    {Fault{Status: 402}, failures.Auth, true},
		"no permission":                {Fault{Status: 403, Type: "permission_error"}, failures.Auth, true},
		"a limit inside":               {Fault{Status: 200, Type: "rate_limit_error"}, failures.RateLimited, false},
		"overloaded inside":            {Fault{Status: 200, Type: "overloaded_error"}, failures.APIError, false},
		"a timeout":                    {Fault{Status: 408}, failures.APIError, false},
		"a gateway":                    {Fault{Status: 502, Message: "<html>"}, failures.APIError, false},
		"a request that is wrong":      {Fault{Status: 422, Message: "max_tokens: too large"}, failures.APIError, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := Failure(&c.fault, "", time.Time{})
			require.Equal(t, c.category, f.Category, "%s", f.Message)
			require.Equal(t, !c.final, f.RetryRound())
		})
	}
}
