package cost

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
)

// Prices are the prices of an agent's tokens, in USD per million.
type Prices struct {
	// Input is the price of a million tokens that the model reads.
	Input USD `json:"input" yaml:"input,omitempty" jsonschema:"minimum=0"`
	// Output is the price of a million tokens that the model writes.
	Output USD `json:"output" yaml:"output,omitempty" jsonschema:"minimum=0"`
	// CacheRead is the price of input that is read from the provider's cache. Left out or 0: input.
	CacheRead USD `json:"cache_read" yaml:"cache_read,omitempty" jsonschema:"minimum=0"`
	// CacheWrite is the price of input that is written to the provider's cache. Left out or 0: a
	// quarter more than input.
	CacheWrite USD `json:"cache_write" yaml:"cache_write,omitempty" jsonschema:"minimum=0"`
	// CacheWrite1h is the price of input that is written to the provider's cache for an hour. Left
	// out or 0: twice input.
	CacheWrite1h USD `json:"cache_write_1h" yaml:"cache_write_1h,omitempty" jsonschema:"minimum=0"`
	// WebSearch is the price of a thousand searches by the provider. Left out or 0, it is 10 USD; 35
	// USD for a provider with format gemini.
	WebSearch USD `json:"web_search" yaml:"web_search,omitempty" jsonschema:"minimum=0"`
	// When has other prices, for calls with a longer prompt or of another service tier.
	When []When `json:"when,omitempty" yaml:"when,omitempty" jsonschema:"maxItems=100"`
}

// PriceList has the prices of models by name. A name that ends in * is that of all models whose names begin like it.
type PriceList map[string]Prices

// For returns the prices of a model's tokens; nil if they are not known. offered is false if the list does not have the model.
// A nil list has every model, at unknown prices.
func (l PriceList) For(model string) (prices *Prices, offered bool) {
	if l == nil {
		return nil, true
	}
	best := -1
	for name, costs := range l {
		prefix, pattern := strings.CutSuffix(name, "*")
		length := len(prefix)
		if name == model {
			length = len(model) + 1
		} else if !pattern || !strings.HasPrefix(model, prefix) {
			continue
		}
		if length > best {
			best, prices = length, &costs
		}
	}
	return prices, prices != nil
}

// When are other prices of some calls, in USD per million. The default of each is input;
// cache_write: a quarter more, cache_write_1h: twice input.
type When struct {
	// Tier is the service tier or speed in the provider's answer, like priority, flex or fast; us is
	// Anthropic's inference in the United States. Two together are written like fast+us. Left out:
	// the standard tier.
	Tier string `json:"tier,omitempty" yaml:"tier,omitempty" jsonschema:"format=filled"`
	// Above is the number of tokens that the prompt exceeds, cached tokens included.
	Above int64 `json:"above,omitempty" yaml:"above,omitempty" jsonschema:"minimum=0"`
	// Input is the price of a million tokens that the model reads.
	Input USD `json:"input" yaml:"input,omitempty" jsonschema:"minimum=0"`
	// Output is the price of a million tokens that the model writes.
	Output USD `json:"output" yaml:"output,omitempty" jsonschema:"minimum=0"`
	// CacheRead is the price of input that is read from the provider's cache.
	CacheRead USD `json:"cache_read" yaml:"cache_read,omitempty" jsonschema:"minimum=0"`
	// CacheWrite is the price of input that is written to the provider's cache.
	CacheWrite USD `json:"cache_write" yaml:"cache_write,omitempty" jsonschema:"minimum=0"`
	// CacheWrite1h is the price of input that is written to the provider's cache for an hour.
	CacheWrite1h USD `json:"cache_write_1h" yaml:"cache_write_1h,omitempty" jsonschema:"minimum=0"`
}

// prices converts w to Prices. webSearch is the price of a thousand searches.
func (w When) prices(webSearch USD) Prices {
	return Prices{
		Input: w.Input, Output: w.Output, CacheRead: w.CacheRead, CacheWrite: w.CacheWrite, CacheWrite1h: w.CacheWrite1h,
		WebSearch: webSearch,
	}
}

// WithDefaults fills in prices that are not stated. The defaults are high, because it is better to
// stop a budget too early than to exceed it. webSearch is the price of a thousand searches.
func (p Prices) WithDefaults(webSearch USD) Prices {
	p.CacheRead = cmp.Or(p.CacheRead, p.Input)
	p.CacheWrite = cmp.Or(p.CacheWrite, p.Input+p.Input/4)
	p.CacheWrite1h = cmp.Or(p.CacheWrite1h, 2*p.Input)
	p.WebSearch = cmp.Or(p.WebSearch, webSearch)
	p.When = slices.Clone(p.When)
	for i, w := range p.When {
		full := w.prices(0).WithDefaults(0)
		p.When[i].CacheRead, p.When[i].CacheWrite, p.When[i].CacheWrite1h = full.CacheRead, full.CacheWrite, full.CacheWrite1h
	}
	return p
}

// Has reports whether the prices of a service tier are known. The empty one is the usual one.
func (p Prices) Has(tier string) bool {
	return tier == "" || slices.ContainsFunc(p.When, func(w When) bool { return w.Tier == tier })
}

// Of are the prices of a call of a service tier with so many tokens in its prompt. A tier without
// prices has those of the usual tier.
func (p Prices) Of(tier string, prompt int64) Prices {
	if !p.Has(tier) {
		tier = ""
	}
	best, above := p, int64(-1)
	best.When = nil
	for _, w := range p.When {
		if w.Tier == tier && w.Above > above && (w.Above == 0 || prompt > w.Above) {
			above, best = w.Above, w.prices(p.WebSearch)
		}
	}
	return best
}

// Highest are the highest prices for input (read from a cache or written to one) and output of a
// call of a service tier whose prompt has up to so many tokens. hour: the prompt may be cached for
// an hour.
func (p Prices) Highest(tier string, prompt int64, hour bool) (input, output USD) {
	for _, w := range append([]When{{}}, p.When...) {
		of := p.Of(tier, min(w.Above+1, prompt))
		input, output = max(input, of.Input, of.CacheRead, of.CacheWrite), max(output, of.Output)
		if hour {
			input = max(input, of.CacheWrite1h)
		}
	}
	return input, output
}

// Cost is the cost of the usage of a call of a service tier at these prices, rounded up to the
// billionth of a dollar. It ignores the usage's own CostUSD.
func (p Prices) Cost(u Usage, tier string) USD {
	of := p.Of(tier, u.Prompt())
	hour := min(u.CacheWrite1hTokens, u.CacheWriteTokens)
	sum := new(big.Int)
	for _, part := range []struct {
		tokens int64
		price  USD
	}{
		{u.InputTokens, of.Input},
		{u.OutputTokens, of.Output},
		{u.CacheReadTokens, of.CacheRead},
		{u.CacheWriteTokens - hour, of.CacheWrite},
		{hour, of.CacheWrite1h},
		{u.WebSearches * 1000, of.WebSearch},
	} {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(part.tokens), big.NewInt(int64(part.price))))
	}
	million := big.NewInt(1_000_000)
	return USD(sum.Add(sum, big.NewInt(999_999)).Quo(sum, million).Int64())
}
