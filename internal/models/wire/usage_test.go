package wire

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
)

// TestDialectsOfUsage reads a usage as the servers write it.
func TestDialectsOfUsage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format  Format
		usage   string
		want    cost.Usage
		cost    cost.USD
		differs string
	}{
		"OpenAI with cache writes": {ChatCompletions, `"usage":{"prompt_tokens":2600,"completion_tokens":10,"total_tokens":2610,"prompt_tokens_details":{"cached_tokens":2000,"cache_write_tokens":400}}`,
			cost.Usage{InputTokens: 200, OutputTokens: 10, CacheReadTokens: 2000, CacheWriteTokens: 400}, 0, ""},
		"OpenAI's Responses with cache writes": {Responses, `"usage":{"input_tokens":2600,"output_tokens":10,"total_tokens":2610,"input_tokens_details":{"cached_tokens":2000,"cache_write_tokens":400}}`,
			cost.Usage{InputTokens: 200, OutputTokens: 10, CacheReadTokens: 2000, CacheWriteTokens: 400}, 0, ""},
		"reasoning inside": {ChatCompletions, `"usage":{"prompt_tokens":10,"completion_tokens":300,"total_tokens":310,"completion_tokens_details":{"reasoning_tokens":200}}`,
			cost.Usage{InputTokens: 10, OutputTokens: 300, ReasoningTokens: 200}, 0, ""},
		"reasoning beside, as xAI": {ChatCompletions, `"usage":{"prompt_tokens":10,"completion_tokens":100,"total_tokens":310,"completion_tokens_details":{"reasoning_tokens":200},"cost_in_usd_ticks":37756000}`,
			cost.Usage{InputTokens: 10, OutputTokens: 300, ReasoningTokens: 200}, 3_775_600, ""},
		"more reasoning than output, without a total": {ChatCompletions, `"usage":{"prompt_tokens":10,"completion_tokens":100,"reasoning_tokens":200}`,
			cost.Usage{InputTokens: 10, OutputTokens: 300, ReasoningTokens: 200}, 0, ""},
		"DeepSeek": {ChatCompletions, `"usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}`,
			cost.Usage{InputTokens: 36, OutputTokens: 5, CacheReadTokens: 64}, 0, ""},
		"Kimi, in the last choice": {ChatCompletions, `"choices":[{"index":0,"finish_reason":"stop","usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"cached_tokens":64}}]`,
			cost.Usage{InputTokens: 36, OutputTokens: 5, CacheReadTokens: 64}, 0, ""},
		"Groq, in a stream": {ChatCompletions, `"x_groq":{"usage":{"prompt_tokens":18,"completion_tokens":5,"total_tokens":23,"queue_time":0.1}}`,
			cost.Usage{InputTokens: 18, OutputTokens: 5}, 0, ""},
		"Anthropic's numbers behind an endpoint of OpenAI's format": {ChatCompletions, `"usage":{"prompt_tokens":100,"completion_tokens":5,"cache_read_input_tokens":60,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_1h_input_tokens":20}}`,
			cost.Usage{InputTokens: 100, OutputTokens: 5, CacheReadTokens: 60, CacheWriteTokens: 30, CacheWrite1hTokens: 20}, 0, ""},
		"LiteLLM, whose input includes them": {ChatCompletions, `"usage":{"prompt_tokens":190,"completion_tokens":5,"total_tokens":195,"cache_read_input_tokens":60,"cache_creation_input_tokens":30,"prompt_tokens_details":{"cached_tokens":60}}`,
			cost.Usage{InputTokens: 100, OutputTokens: 5, CacheReadTokens: 60, CacheWriteTokens: 30}, 0, ""},
		"OpenRouter with a key of the user's own": {ChatCompletions, `"usage":{"prompt_tokens":194,"completion_tokens":2,"total_tokens":196,"cost":0.95,"is_byok":true,"cost_details":{"upstream_inference_cost":19}}`,
			cost.Usage{InputTokens: 194, OutputTokens: 2}, 19_950_000_000, ""},
		"OpenRouter in Anthropic's format, with a key of the user's own": {Messages, `"type":"message","usage":{"input_tokens":100,"output_tokens":5,"cost":0.5,"is_byok":true,"cost_details":{"upstream_inference_cost":2}}`,
			cost.Usage{InputTokens: 100, OutputTokens: 5}, 2_500_000_000, ""},
		"Bedrock's names": {ChatCompletions, `"usage":{"inputTokens":10,"outputTokens":20,"totalTokens":1530,"cacheReadInputTokens":1000,"cacheWriteInputTokens":500}`,
			cost.Usage{InputTokens: 10, OutputTokens: 20, CacheReadTokens: 1000, CacheWriteTokens: 500}, 0, ""},
		"Gemini's thoughts beside an empty answer": {ChatCompletions, `"usage":{"prompt_tokens":21,"completion_tokens":0,"total_tokens":81,"completion_tokens_details":{"reasoning_tokens":60}}`,
			cost.Usage{InputTokens: 21, OutputTokens: 60, ReasoningTokens: 60}, 0, ""},
		"Gemini's thoughts in the total only": {ChatCompletions, `"usage":{"prompt_tokens":20,"completion_tokens":198,"total_tokens":623}`,
			cost.Usage{InputTokens: 20, OutputTokens: 603}, 0, "the provider's total is 623 tokens, and its parts add up to 218"},
		"audio, predictions and nulls": {ChatCompletions, `"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":4},"completion_tokens_details":{"reasoning_tokens":null,"audio_tokens":3,"accepted_prediction_tokens":1}}`,
			cost.Usage{InputTokens: 19, OutputTokens: 10}, 0, ""},
		"LiteLLM, with both of Bedrock's cache writes": {ChatCompletions, `"usage":{"completion_tokens":20,"prompt_tokens":1020,"total_tokens":1040,"prompt_tokens_details":{"cached_tokens":0,"cache_creation_tokens":1000,"cache_creation_token_details":{"ephemeral_5m_input_tokens":400,"ephemeral_1h_input_tokens":600}},"cache_creation_input_tokens":1000,"cache_read_input_tokens":0}`,
			cost.Usage{InputTokens: 20, OutputTokens: 20, CacheWriteTokens: 1000, CacheWrite1hTokens: 600}, 0, ""},
		"Qwen's explicit cache": {ChatCompletions, `"usage":{"prompt_tokens":3019,"completion_tokens":104,"total_tokens":3123,"prompt_tokens_details":{"cached_tokens":0,"cache_creation_input_tokens":3000,"cache_creation":{"ephemeral_5m_input_tokens":3000}}}`,
			cost.Usage{InputTokens: 19, OutputTokens: 104, CacheWriteTokens: 3000}, 0, ""},
		"Perplexity": {ChatCompletions, `"usage":{"prompt_tokens":8,"completion_tokens":439,"total_tokens":447,"citation_tokens":100,"cost":{"input_tokens_cost":2.4e-05,"output_tokens_cost":0.006585,"request_cost":0.006,"total_cost":0.012609}}`,
			cost.Usage{InputTokens: 8, OutputTokens: 439}, 12_609_000, ""},
		"Together and Mistral": {ChatCompletions, `"usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"num_cached_tokens":40,"prompt_tokens_details":{"created_cache_tokens":20}}`,
			cost.Usage{InputTokens: 40, OutputTokens: 5, CacheReadTokens: 40, CacheWriteTokens: 20}, 0, ""},
		"numbers as text, and as floats": {ChatCompletions, `"usage":{"prompt_tokens":"12","completion_tokens":3.0,"total_tokens":15,"prompt_tokens_details":null,"estimated_cost":"1.5e-05"}`,
			cost.Usage{InputTokens: 12, OutputTokens: 3}, 15_000, ""},
		"a higher total": {ChatCompletions, `"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":115}`,
			cost.Usage{InputTokens: 12, OutputTokens: 103}, 0, "the provider's total is 115 tokens, and its parts add up to 15"},
		"a lower total": {ChatCompletions, `"usage":{"prompt_tokens":12,"completion_tokens":30,"total_tokens":15}`,
			cost.Usage{InputTokens: 12, OutputTokens: 30}, 0, "the provider's total is 15 tokens, and its parts add up to 42"},
		"Gemini, with tools and thoughts": {GenerateContent, `"usageMetadata":{"promptTokenCount":10,"toolUsePromptTokenCount":5,"candidatesTokenCount":7,"thoughtsTokenCount":3,"totalTokenCount":25}`,
			cost.Usage{InputTokens: 15, OutputTokens: 10, ReasoningTokens: 3}, 0, ""},
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
		"0.0005": {1_000_000, "by the prices in the worker file it costs 0.001 USD"}, "free": {1_000_000, ""}, "-1": {1_000_000, ""}, "NaN": {1_000_000, ""},
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
