package llm

import (
	"math/big"
	"sync/atomic"

	"github.com/maestro-hive/maestro/internal/cost"
)

const (
	// bytesPerToken is the best guess at how many bytes of text are a token.
	bytesPerToken = 4
	// usualOutput is how many tokens an answer has by the best guess.
	usualOutput = 1024
	// leastOutput is how many tokens of an answer a call has to be able to pay
	// for: fewer hold no call of a tool.
	leastOutput = 16
	// block is the unit of text that a [Scale] counts tokens by, in bytes.
	block = 4096
)

// Scale learns how many tokens a provider counts for a text, from the calls of one
// agent. Its zero value knows nothing yet. It may be used from many goroutines.
type Scale struct{ tokens atomic.Int64 }

// learn takes in what a provider has counted for a prompt of so many bytes. The
// dearest is kept.
func (s *Scale) learn(tokens, bytes int64) {
	if tokens <= 0 || bytes <= 0 {
		return
	}
	for now := (tokens*block + bytes - 1) / bytes; ; {
		before := s.tokens.Load()
		if before >= now || s.tokens.CompareAndSwap(before, now) {
			return
		}
	}
}

// forecast is what is known of a call's cost before it is made. The prompt has a
// beginning that the provider has counted in the call before, and a rest of
// which only the bytes are known: never fewer than its tokens.
type forecast struct {
	// counted is the tokens of the beginning. Cached is how many of them the
	// provider will find in its cache, and caches tells that it charges for
	// putting more there.
	counted, cached int64
	caches          bool
	// removed is the bytes that were taken out of the beginning since.
	removed int64
	// fresh is the bytes of the rest, total those of the whole request.
	fresh, total int64
	// learned is the tokens of a block of text; zero: nobody knows.
	learned int64
	// maxOutput is the most tokens that the answer may have.
	maxOutput int64
	// prices are what tokens cost; nil: nothing that is known.
	prices *cost.Prices
}

// bound is more tokens than the prompt can have.
func (f forecast) bound() int64 { return min(f.counted+f.fresh, f.total) }

// guess is how many tokens the prompt has by the best guess.
func (f forecast) guess() int64 {
	return min(max(f.counted-f.removed/bytesPerToken, 0)+f.rest(), f.bound())
}

// rest is how many tokens the rest has by the best guess.
func (f forecast) rest() int64 {
	if f.learned > 0 {
		return (f.fresh*f.learned + block - 1) / block
	}
	return tokensOf(f.fresh)
}

// margin is by how much the guess may well be wrong.
func (f forecast) margin() int64 {
	margin := f.rest() / 4
	if f.learned > 0 {
		margin = f.rest() / 16
	}
	return min(margin, f.bound()-f.guess())
}

// tokensOf guesses the tokens of a text of so many bytes.
func tokensOf(bytes int64) int64 { return (bytes + bytesPerToken - 1) / bytesPerToken }

// want covers the call whatever it turns out to cost.
func (f forecast) want() cost.Amount { return f.most(f.maxOutput) }

// most covers a call whose answer has up to so many tokens: every token of the
// prompt is priced as the dearest kind.
func (f forecast) most(output int64) cost.Amount {
	a := cost.Amount{Tokens: f.bound() + output}
	if f.prices != nil {
		dearest := cost.Prices{Input: f.dearest(), Output: f.prices.Output}
		a.USD = dearest.Cost(cost.Usage{InputTokens: f.bound(), OutputTokens: output})
	}
	return a
}

// dearest is the price of the dearest kind of token that a prompt may have.
func (f forecast) dearest() cost.USD {
	return max(f.prices.Input, f.prices.CacheRead, f.prices.CacheWrite)
}

// estimate is the usage of the call by the best guess, with a short answer.
func (f forecast) estimate() cost.Usage { return f.estimated(min(usualOutput, f.maxOutput)) }

// estimated is the usage of the call with an answer of so many tokens.
func (f forecast) estimated(output int64) cost.Usage {
	guess := f.guess()
	u := cost.Usage{CacheReadTokens: min(f.cached, guess), OutputTokens: output}
	if rest := guess - u.CacheReadTokens; f.caches {
		u.CacheWriteTokens = rest
	} else {
		u.InputTokens = rest
	}
	return priced(u, f.prices)
}

// least is the least that the call may be made with.
func (f forecast) least() cost.Amount { return f.estimated(min(leastOutput, f.maxOutput)).Amount() }

// output is how many tokens the answer may have if so much was granted: as many
// as stay within it by the best guess and a margin, but never fewer than the least.
func (f forecast) output(granted cost.Amount) int64 {
	if want := f.want(); granted.Tokens >= want.Tokens && granted.USD >= want.USD {
		return f.maxOutput
	}
	room := granted.Tokens - f.guess() - f.margin()
	if f.prices != nil && f.prices.Output > 0 {
		room = min(room, f.affordable(granted.USD))
	}
	return max(min(room, f.maxOutput), min(leastOutput, f.maxOutput))
}

// affordable is how many tokens of an answer the money pays besides the prompt.
func (f forecast) affordable(money cost.USD) int64 {
	perMillion := new(big.Int).Mul(big.NewInt(int64(money)), big.NewInt(1_000_000))
	perMillion.Sub(perMillion, new(big.Int).Mul(big.NewInt(f.guess()+f.margin()), big.NewInt(int64(f.dearest()))))
	if perMillion.Sign() <= 0 {
		return 0
	}
	n := perMillion.Quo(perMillion, big.NewInt(int64(f.prices.Output)))
	if !n.IsInt64() {
		return f.maxOutput
	}
	return n.Int64()
}

// priced completes a usage with what it costs.
func priced(u cost.Usage, prices *cost.Prices) cost.Usage {
	u.CostUSD = 0
	if prices != nil {
		u.CostUSD = prices.Cost(u)
	}
	return u
}
