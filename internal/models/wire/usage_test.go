package wire

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
)

// counted is a usage in the order of a bill.
func counted(input, output, cacheRead, cacheWrite, cacheWrite1h, reasoning int64) cost.Usage {
	return cost.Usage{
		InputTokens: input, OutputTokens: output, CacheReadTokens: cacheRead, CacheWriteTokens: cacheWrite,
		CacheWrite1hTokens: cacheWrite1h, ReasoningTokens: reasoning,
	}
}

// TestDialectsOfUsage reads a usage as the servers write it.
func TestDialectsOfUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format  Format
		want    cost.Usage
		cost    cost.USD
		differs string
		usage   string
	}{
		"OpenAI with cache writes": {
			ChatCompletions, counted(200, 10, 2000, 400, 0, 0), 0, "",
			`"usage":{"prompt_tokens":2600,"completion_tokens":10,"total_tokens":2610,"prompt_tokens_details":{"cached_tokens":2000,"cache_write_tokens":400}}`,
		},
		"OpenAI's Responses with cache writes": {
			Responses, counted(200, 10, 2000, 400, 0, 0), 0, "",
			`"usage":{"input_tokens":2600,"output_tokens":10,"total_tokens":2610,"input_tokens_details":{"cached_tokens":2000,"cache_write_tokens":400}}`,
		},
		"reasoning inside": {
			ChatCompletions, counted(10, 300, 0, 0, 0, 200), 0, "",
			`"usage":{"prompt_tokens":10,"completion_tokens":300,"total_tokens":310,"completion_tokens_details":{"reasoning_tokens":200}}`,
		},
		"reasoning beside, as xAI": {
			ChatCompletions, counted(10, 300, 0, 0, 0, 200), 3_775_600, "",
			`"usage":{"prompt_tokens":10,"completion_tokens":100,"total_tokens":310,"completion_tokens_details":{"reasoning_tokens":200},"cost_in_usd_ticks":37756000}`,
		},
		"more reasoning than output, without a total": {
			ChatCompletions, counted(10, 300, 0, 0, 0, 200), 0, "",
			`"usage":{"prompt_tokens":10,"completion_tokens":100,"reasoning_tokens":200}`,
		},
		"DeepSeek": {
			ChatCompletions, counted(36, 5, 64, 0, 0, 0), 0, "",
			`"usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}`,
		},
		"Kimi, in the last choice": {
			ChatCompletions, counted(36, 5, 64, 0, 0, 0), 0, "",
			`"choices":[{"index":0,"finish_reason":"stop","usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"cached_tokens":64}}]`,
		},
		"Groq, in a stream": {
			ChatCompletions, counted(18, 5, 0, 0, 0, 0), 0, "",
			`"x_groq":{"usage":{"prompt_tokens":18,"completion_tokens":5,"total_tokens":23,"queue_time":0.1}}`,
		},
		"Anthropic's numbers behind an endpoint of OpenAI's format": {
			ChatCompletions, counted(100, 5, 60, 30, 20, 0), 0, "",
			`"usage":{"prompt_tokens":100,"completion_tokens":5,"cache_read_input_tokens":60,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_1h_input_tokens":20}}`,
		},
		"LiteLLM, whose input includes them": {
			ChatCompletions, counted(100, 5, 60, 30, 0, 0), 0, "",
			`"usage":{"prompt_tokens":190,"completion_tokens":5,"total_tokens":195,"cache_read_input_tokens":60,"cache_creation_input_tokens":30,"prompt_tokens_details":{"cached_tokens":60}}`,
		},
		"OpenRouter with a key of the user's own": {
			ChatCompletions, counted(194, 2, 0, 0, 0, 0), 19_950_000_000,
			"", `"usage":{"prompt_tokens":194,"completion_tokens":2,"total_tokens":196,"cost":0.95,"is_byok":true,"cost_details":{"upstream_inference_cost":19}}`,
		},
		"OpenRouter in Anthropic's format, with a key of the user's own": {
			Messages, counted(100, 5, 0, 0, 0, 0), 2_500_000_000, "",
			`"type":"message","usage":{"input_tokens":100,"output_tokens":5,"cost":0.5,"is_byok":true,"cost_details":{"upstream_inference_cost":2}}`,
		},
		"Bedrock's names": {
			ChatCompletions, counted(10, 20, 1000, 500, 0, 0), 0, "",
			`"usage":{"inputTokens":10,"outputTokens":20,"totalTokens":1530,"cacheReadInputTokens":1000,"cacheWriteInputTokens":500}`,
		},
		"Gemini's thoughts beside an empty answer": {
			ChatCompletions, counted(21, 60, 0, 0, 0, 60), 0, "",
			`"usage":{"prompt_tokens":21,"completion_tokens":0,"total_tokens":81,"completion_tokens_details":{"reasoning_tokens":60}}`,
		},
		"Gemini's thoughts in the total only": {
			ChatCompletions, counted(20, 603, 0, 0, 0, 0), 0,
			"the provider's total is 623 tokens, and its parts add up to 218",
			`"usage":{"prompt_tokens":20,"completion_tokens":198,"total_tokens":623}`,
		},
		"audio, predictions and nulls": {
			ChatCompletions, counted(19, 10, 0, 0, 0, 0), 0, "",
			`"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":4},"completion_tokens_details":{"reasoning_tokens":null,"audio_tokens":3,"accepted_prediction_tokens":1}}`,
		},
		"LiteLLM, with both of Bedrock's cache writes": {
			ChatCompletions, counted(20, 20, 0, 1000, 600, 0), 0, "",
			`"usage":{"completion_tokens":20,"prompt_tokens":1020,"total_tokens":1040,"prompt_tokens_details":{"cached_tokens":0,"cache_creation_tokens":1000,"cache_creation_token_details":{"ephemeral_5m_input_tokens":400,"ephemeral_1h_input_tokens":600}},"cache_creation_input_tokens":1000,"cache_read_input_tokens":0}`,
		},
		"Qwen's explicit cache": {
			ChatCompletions, counted(19, 104, 0, 3000, 0, 0), 0, "",
			`"usage":{"prompt_tokens":3019,"completion_tokens":104,"total_tokens":3123,"prompt_tokens_details":{"cached_tokens":0,"cache_creation_input_tokens":3000,"cache_creation":{"ephemeral_5m_input_tokens":3000}}}`,
		},
		"Perplexity": {
			ChatCompletions, counted(8, 439, 0, 0, 0, 0), 12_609_000, "",
			`"usage":{"prompt_tokens":8,"completion_tokens":439,"total_tokens":447,"citation_tokens":100,"cost":{"input_tokens_cost":2.4e-05,"output_tokens_cost":0.006585,"request_cost":0.006,"total_cost":0.012609}}`,
		},
		"Together and Mistral": {
			ChatCompletions, counted(40, 5, 40, 20, 0, 0), 0, "",
			`"usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"num_cached_tokens":40,"prompt_tokens_details":{"created_cache_tokens":20}}`,
		},
		"numbers as text, and as floats": {
			ChatCompletions, counted(12, 3, 0, 0, 0, 0), 15_000, "",
			`"usage":{"prompt_tokens":"12","completion_tokens":3.0,"total_tokens":15,"prompt_tokens_details":null,"estimated_cost":"1.5e-05"}`,
		},
		"a higher total": {
			ChatCompletions, counted(12, 103, 0, 0, 0, 0), 0,
			"the provider's total is 115 tokens, and its parts add up to 15",
			`"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":115}`,
		},
		"a lower total": {
			ChatCompletions, counted(12, 30, 0, 0, 0, 0), 0,
			"the provider's total is 15 tokens, and its parts add up to 42",
			`"usage":{"prompt_tokens":12,"completion_tokens":30,"total_tokens":15}`,
		},
		"Gemini, with tools and thoughts": {
			GenerateContent, counted(15, 10, 0, 0, 0, 3), 0, "",
			`"usageMetadata":{"promptTokenCount":10,"toolUsePromptTokenCount":5,"candidatesTokenCount":7,"thoughtsTokenCount":3,"totalTokenCount":25}`,
		},
	} {
		m := NewMeter(c.format, 1, "application/json")
		_, _ = m.Write([]byte("{" + c.usage + "}"))
		f := m.Facts()
		require.Equal(t, c.want, f.Usage, name)
		require.Equal(t, c.cost, f.Cost, name)
		require.Equal(t, c.differs, f.Differs, name)
		require.True(t, f.Counted, name)
	}
}

// TestACountOfZeroIsNoCount: servers that do not count state it in each chunk. The content is estimated.
func TestACountOfZeroIsNoCount(t *testing.T) {
	t.Parallel()
	f := Forecast{Fresh: 400, Total: 400, MaxOutput: 1000}
	m := NewMeter(ChatCompletions, 1, "application/json")
	_, _ = m.Write([]byte(`{"choices":[{"index":0,"message":{"content":"forty bytes of content are ten tokens ."},"finish_reason":"stop"}],
		"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`))
	facts := m.Facts()
	require.False(t, facts.Counted)
	require.Equal(t, cost.Usage{InputTokens: 100, OutputTokens: 10}, f.Spent(facts))
}

func TestTheHigherCostCounts(t *testing.T) {
	t.Parallel()
	f := Forecast{Prices: &cost.Prices{Input: 1_000_000_000, Output: 1_000_000_000}, MaxOutput: 1000}
	for stated, c := range map[string]struct {
		booked  cost.USD
		differs string
	}{
		"": {1_000_000, ""}, "0.001": {1_000_000, ""}, "0.002": {2_000_000, "the provider says that it costs 0.002 USD"},
		"0.0005": {1_000_000, "by the prices in the worker file it costs 0.001 USD"}, "free": {1_000_000, ""}, "-1": {1_000_000, ""},
		"NaN": {1_000_000, ""},
	} {
		m := NewMeter(ChatCompletions, 1, "application/json")
		m.Header(http.Header{"X-Litellm-Response-Cost": {stated}})
		_, _ = m.Write([]byte(`{"choices":[{"index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":600,"completion_tokens":400}}`))
		facts := f.Checked(m.Facts())
		require.Equal(t, c.booked, f.Spent(facts).CostUSD, stated)
		require.Contains(t, facts.Differs, c.differs, stated)
		require.Equal(t, c.differs == "", facts.Differs == "", stated)
	}
}
