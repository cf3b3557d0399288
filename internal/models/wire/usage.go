package wire

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Providers state the usage in dialects. The name of a count says what it is, wherever in the usage it stands, and whether it
// is written as input_tokens or as inputTokens. These are the names of OpenAI, DeepSeek, Moonshot (Kimi), Qwen, xAI, OpenRouter,
// LiteLLM, Perplexity, vLLM, and of Anthropic, Bedrock and Gemini, which also occur behind endpoints of OpenAI's format.
var usageNames = uniform(map[string]func(*counts) *count{
	"prompt_tokens": inputOf, "input_tokens": inputOf, "prompt_token_count": inputOf, "tool_use_prompt_token_count": toolInputOf,
	"completion_tokens": outputOf, "output_tokens": outputOf, "candidates_token_count": outputOf,
	"cached_tokens": cacheReadOf, "prompt_cache_hit_tokens": cacheReadOf, "cache_read_tokens": cacheReadOf,
	"cache_read_input_tokens": cacheReadOf,
	"cached_input_tokens":     cacheReadOf, "num_cached_tokens": cacheReadOf, "cached_creation_tokens": cacheWriteOf,
	"created_cache_tokens": cacheWriteOf,
	"cache_write_tokens":   cacheWriteOf, "cache_creation_tokens": cacheWriteOf, "cache_creation_input_tokens": cacheWriteOf,
	"cache_write_input_tokens": cacheWriteOf, "cached_content_token_count": cacheReadOf,
	"ephemeral_1h_input_tokens": cacheHourOf, "web_search_requests": searchesOf,
	"reasoning_tokens": reasoningOf, "thinking_tokens": reasoningOf, "thoughts_token_count": reasoningOf,
	"total_tokens": totalOf, "total_token_count": totalOf,
})

// uniform makes names uniform.
func uniform[T any](names map[string]T) map[string]T {
	out := map[string]T{}
	for name, value := range names {
		out[uniformName(name)] = value
	}
	return out
}

func uniformName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

func inputOf(c *counts) *count      { return &c.input }
func toolInputOf(c *counts) *count  { return &c.tools }
func outputOf(c *counts) *count     { return &c.output }
func cacheReadOf(c *counts) *count  { return &c.cacheRead }
func cacheWriteOf(c *counts) *count { return &c.cacheWrite }
func cacheHourOf(c *counts) *count  { return &c.cacheHour }
func reasoningOf(c *counts) *count  { return &c.reasoning }
func searchesOf(c *counts) *count   { return &c.searches }
func totalOf(c *counts) *count      { return &c.total }

// named returns the count with this name, which may be the end of a path; nil: there is none.
func (c *counts) named(name string) *count {
	if of := usageNames[uniformName(name[strings.LastIndexByte(name, '.')+1:])]; of != nil {
		return of(c)
	}
	return nil
}

// usagePlaces are the keys with a usage: that of OpenAI and Anthropic, Moonshot's of the last chunk, Groq's of a stream, and
// Gemini's.
var usagePlaces = []string{"usage.", "choices[].usage.", "x_groq.usage.", "usageMetadata."}

// readUsage reads a value of a usage; false: the path is not in one.
func (m *Meter) readUsage(path string, l leaf) bool {
	for _, place := range usagePlaces {
		rest, ok := strings.CutPrefix(path, place)
		if !ok {
			continue
		}
		if c := m.counts.named(rest); c != nil {
			c.set(l)
			m.counted = m.counted || l.number() >= 0 && (c == &m.counts.output || c == &m.counts.reasoning)
		}
		name := rest[strings.LastIndexByte(rest, '.')+1:]
		switch uniformName(name) {
		case "cachereadinputtokens", "cachecreationinputtokens", "cachewriteinputtokens":
			m.counts.beside = true
		}
		m.readCost(rest, name, l)
		return true
	}
	return false
}

// ticksPerDollar is xAI's unit of money.
const ticksPerDollar = 10_000_000_000

// readCost reads what a provider says that the call costs, in USD: OpenRouter's and Perplexity's cost,
// DeepInfra's estimated_cost, xAI's ticks. With a key of the user's own, OpenRouter states the price of
// the model apart.
func (m *Meter) readCost(rest, name string, l leaf) {
	if rest == "is_byok" {
		m.stated.ownKey = l.is("true")
	}
	amount, err := strconv.ParseFloat(string(l.raw), 64)
	if err != nil || !(amount >= 0 && amount < 1e6) && name != "cost_in_usd_ticks" {
		return
	}
	usd := cost.USD(amount * 1e9)
	switch {
	case rest == "cost", rest == "total_cost", rest == "cost.total_cost", rest == "estimated_cost":
		m.stated.charged = max(m.stated.charged, usd)
	case rest == "cost_in_usd_ticks" && amount >= 0 && amount < 1e6*ticksPerDollar:
		m.stated.charged = max(m.stated.charged, cost.USD(amount*1e9/ticksPerDollar))
	case rest == "cost_details.upstream_inference_cost":
		m.stated.upstream = max(m.stated.upstream, usd)
	}
}

// statedCost is the money that an answer names.
type statedCost struct {
	charged, upstream cost.USD
	// ownKey: upstream is charged by another provider, in addition.
	ownKey bool
}

func (s statedCost) total() cost.USD {
	if s.ownKey {
		return s.charged + s.upstream
	}
	return max(s.charged, s.upstream)
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

const (
	// maxSearches is an upper bound of the searches of an answer.
	maxSearches = 1000
	// maxWindow bounds the tokens of a prompt, and maxImage those of an image.
	maxWindow, maxImage = 1 << 20, 1 << 16
)

// refers records that the body refers to a part of the prompt with at most this many tokens.
func (q *Request) refers(l leaf, tokens int64) {
	if l.quoted && l.size > 0 && !bytes.HasPrefix(l.raw, []byte("data:")) {
		q.Elsewhere = min(q.Elsewhere+tokens, maxWindow)
	}
}

// usualTiers are the providers' words for tiers with the usual prices.
var usualTiers = []string{"auto", "default", "standard", "standard_only", "on_demand", "global", "not_available"}

// tierOf returns the service tier in the result of [tiers.joined], as [cost.Prices] names it; empty:
// the usual one.
func tierOf(joined string) string {
	words := slices.DeleteFunc(strings.Split(joined, "+"), func(word string) bool { return slices.Contains(usualTiers, word) })
	return strings.Join(words, "+")
}

// tiers are the words of a call for what changes its prices: the service tier, the speed and the place.
type tiers struct{ service, speed, place string }

// joined joins those that are stated.
func (t tiers) joined() string {
	return strings.Join(slices.DeleteFunc([]string{t.service, t.speed, t.place}, func(word string) bool { return word == "" }), "+")
}

// word returns the value as one word in lower case; empty: it is null.
func (l leaf) word() string {
	if !l.quoted {
		return ""
	}
	return textfmt.Shorten(strings.ToLower(l.text()), 80)
}
