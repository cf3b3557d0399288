package wire

import (
	"math/big"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/cost"
)

const (
	// bytesPerToken is the best guess at how many bytes of text are a token.
	bytesPerToken = 4
	// UsualOutput is how many tokens an answer has by the best guess.
	UsualOutput = 1024
	// LeastOutput is how many tokens of an answer a call has to be able to pay
	// for: fewer hold no call of a tool.
	LeastOutput = 16
	// maxSpeed is how many tokens a second are expected at most: short answers from a cache come at once.
	maxSpeed = 100
	// block is the unit of text that a [Scale] counts tokens by, in bytes.
	block = 4096
)

// Scale learns how many tokens a provider counts for a text, from the calls of one
// agent. Its zero value and nil know nothing yet. It may be used from many goroutines.
type Scale struct {
	tokens atomic.Int64
	// wrote is the tokens of answers, and took their time.
	wrote, took atomic.Int64
}

// Wrote takes in an answer of so many tokens, and the time that it took.
func (s *Scale) Wrote(tokens int64, took time.Duration) {
	s.wrote.Add(tokens)
	s.took.Add(int64(took))
}

// Writes is how many tokens are written in a time, by the earlier answers. It is at least
// [UsualOutput]: nobody knows when the writing began.
func (s *Scale) Writes(in time.Duration) int64 {
	if s.took.Load() <= 0 {
		return UsualOutput
	}
	speed := min(float64(s.wrote.Load())/time.Duration(s.took.Load()).Seconds(), maxSpeed)
	return max(UsualOutput, int64(speed*in.Seconds()))
}

// Learn takes in what a provider has counted for a prompt of so many bytes. The
// dearest is kept.
func (s *Scale) Learn(tokens, bytes int64) {
	if s == nil || tokens <= 0 || bytes <= 0 {
		return
	}
	for now := (tokens*block + bytes - 1) / bytes; ; {
		before := s.tokens.Load()
		if before >= now || s.tokens.CompareAndSwap(before, now) {
			return
		}
	}
}

// Learned is the tokens of a block of text, as [Forecast] takes it; zero: nobody knows.
func (s *Scale) Learned() int64 {
	if s == nil {
		return 0
	}
	return s.tokens.Load()
}

// Forecast is what is known of a call's cost before it is made. The prompt has a
// beginning that the provider has counted in the call before, and a rest of
// which only the bytes are known: never fewer than its tokens.
type Forecast struct {
	// Counted is the tokens of the beginning. Cached is how many of them the
	// provider will find in its cache, and Caches tells that it charges for
	// putting more there.
	Counted, Cached int64
	Caches          bool
	// Removed is the bytes that were taken out of the beginning since.
	Removed int64
	// Fresh is the bytes of the rest, Total those of the whole request.
	Fresh, Total int64
	// Elsewhere is the most tokens of what the request only refers to.
	Elsewhere int64
	// Learned is what a [Scale] has learned; zero: nothing.
	Learned int64
	// MaxOutput is the most tokens that the answer may have, and Floor the least bound that the
	// provider accepts.
	MaxOutput, Floor int64
	// Prices are what tokens cost; nil: nothing that is known. Tier is the service tier that was
	// asked for, as [cost.Prices] has it.
	Prices *cost.Prices
	Tier   string
	// Hour: the prompt may be cached for an hour. Searches is how many the provider may make.
	Hour     bool
	Searches int64
}

// bound is more tokens than the prompt can have.
func (f Forecast) bound() int64 { return min(f.Counted+f.Fresh, f.Total) + f.Elsewhere }

// Guess is how many tokens the prompt has by the best guess.
func (f Forecast) Guess() int64 {
	return min(max(f.Counted-f.Removed/bytesPerToken, 0)+f.rest(), f.bound()-f.Elsewhere)
}

// rest is how many tokens the rest has by the best guess.
func (f Forecast) rest() int64 {
	if f.Learned > 0 {
		return (f.Fresh*f.Learned + block - 1) / block
	}
	return TokensOf(f.Fresh)
}

// margin is by how much the guess may well be wrong.
func (f Forecast) margin() int64 {
	margin := f.rest() / 4
	if f.Learned > 0 {
		margin = f.rest() / 16
	}
	return min(margin, f.bound()-f.Elsewhere-f.Guess())
}

// TokensOf guesses the tokens of a text of so many bytes.
func TokensOf(bytes int64) int64 { return (bytes + bytesPerToken - 1) / bytesPerToken }

// Want covers the call whatever it turns out to cost.
func (f Forecast) Want() cost.Amount { return f.most(f.MaxOutput) }

// most covers a call whose answer has up to so many tokens: every token of the
// prompt is Priced as the dearest kind.
func (f Forecast) most(output int64) cost.Amount {
	a := cost.Amount{Tokens: f.bound() + output}
	if f.Prices != nil {
		dearest := cost.Prices{WebSearch: f.Prices.WebSearch}
		dearest.Input, dearest.Output = f.dearest()
		a.USD = dearest.Cost(cost.Usage{InputTokens: f.bound(), OutputTokens: output, WebSearches: f.Searches}, "")
	}
	return a
}

// dearest are the prices of the dearest kind of token that the prompt, and the answer, may have.
func (f Forecast) dearest() (input, output cost.USD) {
	return f.Prices.Dearest(f.Tier, f.bound(), f.Hour)
}

// Estimate is the usage of the call by the best guess, with a short answer.
func (f Forecast) Estimate() cost.Usage { return f.Estimated(min(UsualOutput, f.MaxOutput)) }

// Estimated is the usage of the call with an answer of so many tokens.
func (f Forecast) Estimated(output int64) cost.Usage {
	guess := f.Guess()
	u := cost.Usage{CacheReadTokens: min(f.Cached, guess), OutputTokens: output}
	if rest := guess - u.CacheReadTokens; f.Caches {
		u.CacheWriteTokens = rest
	} else {
		u.InputTokens = rest
	}
	return f.Priced(u, "")
}

// Least is the least that the call may be made with.
func (f Forecast) Least() cost.Amount {
	least := f.Estimated(f.leastOutput()).Amount()
	if f.Elsewhere > 0 { // nobody can guess it
		least.Tokens += f.Elsewhere
		if f.Prices != nil {
			input, _ := f.dearest()
			least.USD = min(least.USD+cost.Prices{Input: input}.Cost(cost.Usage{InputTokens: f.Elsewhere}, ""), f.Want().USD)
		}
	}
	return least
}

// Measured is the forecast of the same request whose prompt the provider has counted.
func (f Forecast) Measured(tokens int64) Forecast {
	f.Counted, f.Fresh, f.Elsewhere, f.Total = tokens, 0, 0, max(f.Total, tokens)
	return f
}

// likely is how many tokens the prompt has, with all that the guess may be wrong by.
func (f Forecast) likely() int64 { return f.Guess() + f.margin() + f.Elsewhere }

func (f Forecast) leastOutput() int64 { return min(max(LeastOutput, f.Floor), f.MaxOutput) }

// Output is how many tokens the answer may have if so much was granted: as many
// as stay within it by the best guess and a margin, but never fewer than the least.
func (f Forecast) Output(granted cost.Amount) int64 {
	if want := f.Want(); granted.Tokens >= want.Tokens && granted.USD >= want.USD {
		return f.MaxOutput
	}
	room := granted.Tokens - f.likely()
	if f.Prices != nil && f.Prices.Output > 0 {
		room = min(room, f.affordable(granted.USD))
	}
	return max(min(room, f.MaxOutput), f.leastOutput())
}

// affordable is how many tokens of an answer the money pays besides the prompt.
func (f Forecast) affordable(money cost.USD) int64 {
	perMillion := new(big.Int).Mul(big.NewInt(int64(money)), big.NewInt(1_000_000))
	input, output := f.dearest()
	perMillion.Sub(perMillion, new(big.Int).Mul(big.NewInt(f.likely()), big.NewInt(int64(input))))
	perMillion.Sub(perMillion, new(big.Int).Mul(big.NewInt(f.Searches*1000), big.NewInt(int64(f.Prices.WebSearch))))
	if perMillion.Sign() <= 0 {
		return 0
	}
	n := perMillion.Quo(perMillion, big.NewInt(int64(output)))
	if !n.IsInt64() {
		return f.MaxOutput
	}
	return n.Int64()
}

// Spent is what an answer has cost as far as it came: what the provider has counted, and an
// estimate of the rest. The estimate stays within the bound of the answer, unless the answer has
// plainly not kept to it.
func (f Forecast) Spent(a Facts) cost.Usage {
	output := a.Usage.OutputTokens + TokensOf(a.Bytes)
	if output < 2*f.MaxOutput {
		output = min(output, f.MaxOutput)
	}
	if !a.Counted {
		return f.Estimated(output)
	}
	u := a.Usage
	u.OutputTokens = max(u.OutputTokens, output)
	return f.Priced(u, a.Tier)
}

// Unlisted is the service tier of an answer that has no prices; empty: it has some, or nothing has.
func (f Forecast) Unlisted(a Facts) string {
	if tier := tierOf(a.Tier); f.Prices != nil && !f.Prices.Has(tier) {
		return tier
	}
	return ""
}

// Priced completes a usage with what it costs, at the prices of the service tier that the answer names,
// in the provider's word; empty: of the one that was asked for.
func (f Forecast) Priced(u cost.Usage, answered string) cost.Usage {
	u.CostUSD = 0
	if f.Prices != nil {
		tier := f.Tier
		if answered != "" {
			tier = tierOf(answered)
		}
		u.CostUSD = f.Prices.Cost(u, tier)
	}
	return u
}
