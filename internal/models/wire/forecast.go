package wire

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/session"
)

const (
	// bytesPerToken is the assumed number of bytes of text in a token.
	bytesPerToken = 4
	// UsualOutput is the assumed number of tokens of an answer.
	UsualOutput = 1024
	// LeastOutput is the smallest affordable number of output tokens for which a call is made.
	// Fewer cannot contain a tool call.
	LeastOutput = 16
	// maxSpeed is the largest assumed number of tokens a second: short answers from a cache come
	// at once.
	maxSpeed = 100
	// block is the unit of text of a [Scale], in bytes.
	block = 4096
)

// Scale learns from the calls of one agent how many tokens a provider counts for a text. Its zero
// value has learned nothing. It is safe for concurrent use.
type Scale struct {
	tokens atomic.Int64
	// wrote is the number of tokens of answers, and took their total time.
	wrote, took atomic.Int64
}

// Wrote records the tokens of an answer, and the time that it took.
func (s *Scale) Wrote(tokens int64, took time.Duration) {
	s.wrote.Add(tokens)
	s.took.Add(int64(took))
}

// Writes returns how many tokens are written in a time, judged by earlier answers, and at least
// [UsualOutput], because it is not known when the writing began.
func (s *Scale) Writes(in time.Duration) int64 {
	if s.took.Load() <= 0 {
		return UsualOutput
	}
	speed := min(float64(s.wrote.Load())/time.Duration(s.took.Load()).Seconds(), maxSpeed)
	return max(UsualOutput, int64(speed*in.Seconds()))
}

// Learn records how many tokens a provider has counted for a prompt of this size. The largest
// ratio is kept.
func (s *Scale) Learn(tokens, bytes int64) {
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

// Learned returns the tokens of a block of text for [Forecast]; zero: unknown.
func (s *Scale) Learned() int64 { return s.tokens.Load() }

// Forecast estimates a call's cost before it is made. The prompt has a beginning whose tokens the
// provider has counted in an earlier call. Of the rest only the size in bytes is known, which is
// at least its number of tokens.
type Forecast struct {
	// Counted is the number of tokens of the beginning. Cached is how many of them the provider
	// will find in its cache. Caches: the provider charges for adding more tokens to the cache.
	Counted, Cached int64
	Caches          bool
	// Removed is the number of bytes that were removed from the beginning since it was counted.
	Removed int64
	// Fresh is the size of the rest in bytes, Total that of the whole request.
	Fresh, Total int64
	// Elsewhere is the largest number of tokens of content that the request only refers to.
	Elsewhere int64
	// Learned is the result of [Scale.Learned]; zero: unknown.
	Learned int64
	// MaxOutput bounds the tokens of the answer, and Floor is the smallest bound that the
	// provider accepts.
	MaxOutput, Floor int64
	// Prices are the prices of tokens; nil: unknown. Tier is the requested service tier, as
	// [cost.Prices] names it.
	Prices *cost.Prices
	Tier   string
	// HourCache says that the prompt may be cached for an hour. Searches is the largest number of searches.
	HourCache bool
	Searches  int64
}

// Forecast returns the forecast of the call before anything was counted. prices may be nil.
func (q *Request) Forecast(prices *cost.Prices) Forecast {
	return Forecast{
		Fresh: q.Size, Total: q.Size, MaxOutput: cmp.Or(q.MaxOutput, unstatedOutput), Floor: q.Floor * q.Choices,
		Prices: prices, Tier: q.Tier, HourCache: q.HourCache, Searches: q.Searches, Elsewhere: q.Elsewhere,
	}
}

// bound returns an upper bound of the prompt's tokens.
func (f Forecast) bound() int64 { return min(f.Counted+f.Fresh, f.Total) + f.Elsewhere }

// Guess returns the estimated number of tokens of the prompt.
func (f Forecast) Guess() int64 {
	return min(max(f.Counted-f.Removed/bytesPerToken, 0)+f.rest(), f.bound()-f.Elsewhere)
}

// rest returns the estimated number of tokens of the rest.
func (f Forecast) rest() int64 {
	if f.Learned > 0 {
		return (f.Fresh*f.Learned + block - 1) / block
	}
	return TokensOf(f.Fresh)
}

// margin returns the expected error of the estimate.
func (f Forecast) margin() int64 {
	margin := f.rest() / 4
	if f.Learned > 0 {
		margin = f.rest() / 16
	}
	return min(margin, f.bound()-f.Elsewhere-f.Guess())
}

// TokensOf estimates the tokens of a text of this size in bytes.
func TokensOf(bytes int64) int64 { return (bytes + bytesPerToken - 1) / bytesPerToken }

// Want returns the amount that covers the call in any case.
func (f Forecast) Want() cost.Amount { return f.most(f.MaxOutput) }

// most returns the amount that covers a call with this many output tokens. Every token of the
// prompt is priced at the highest price.
func (f Forecast) most(output int64) cost.Amount {
	a := cost.Amount{Tokens: f.bound() + output}
	if f.Prices != nil {
		dearest := cost.Prices{WebSearch: f.Prices.WebSearch}
		dearest.Input, dearest.Output = f.dearest()
		a.USD = dearest.Cost(cost.Usage{InputTokens: f.bound(), OutputTokens: output, WebSearches: f.Searches}, "")
	}
	return a
}

// dearest returns the highest prices of a token of the prompt and of the answer.
func (f Forecast) dearest() (input, output cost.USD) {
	return f.Prices.Highest(f.Tier, f.bound(), f.HourCache)
}

// Estimate returns the estimated usage of the call with a short answer.
func (f Forecast) Estimate() cost.Usage { return f.Estimated(min(UsualOutput, f.MaxOutput)) }

// Estimated returns the estimated usage of the call with this many output tokens.
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

// Least returns the smallest amount for which the call is made.
func (f Forecast) Least() cost.Amount {
	least := f.Estimated(f.leastOutput()).Amount()
	if f.Elsewhere > 0 { // it cannot be estimated
		least.Tokens += f.Elsewhere
		if f.Prices != nil {
			input, _ := f.dearest()
			least.USD = min(least.USD+cost.Prices{Input: input}.Cost(cost.Usage{InputTokens: f.Elsewhere}, ""), f.Want().USD)
		}
	}
	return least
}

// Measured returns the forecast after the provider has counted the prompt's tokens.
func (f Forecast) Measured(tokens int64) Forecast {
	f.Counted, f.Fresh, f.Elsewhere, f.Total = tokens, 0, 0, max(f.Total, tokens)
	return f
}

// likely returns the estimated tokens of the prompt plus the margin.
func (f Forecast) likely() int64 { return f.Guess() + f.margin() + f.Elsewhere }

func (f Forecast) leastOutput() int64 { return min(max(LeastOutput, f.Floor), f.MaxOutput) }

// Output returns the bound of the answer for a granted amount: as many tokens as the amount pays
// for by the estimate with its margin, but not fewer than the minimum.
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

// affordable returns how many output tokens the money pays for in addition to the prompt.
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

// Spent returns the usage of an answer, whole or not: what the provider has counted, and an estimate
// of the rest. The estimate does not exceed the bound of the answer, unless the answer clearly
// has.
func (f Forecast) Spent(a Facts) cost.Usage {
	output := a.Usage.OutputTokens + TokensOf(a.Bytes)
	if output < 2*f.MaxOutput {
		output = min(output, f.MaxOutput)
	}
	u := a.Usage
	u.OutputTokens = max(u.OutputTokens, output)
	if !a.Counted {
		u = f.Estimated(output)
	} else {
		u = f.Priced(u, a.Tier)
	}
	u.CostUSD = max(u.CostUSD, a.Cost)
	return u
}

// Plan returns the plan of the call, without what identifies it.
func (f Forecast) Plan() session.CallPlan {
	return session.CallPlan{Want: f.Want(), Least: f.Least(), Estimate: f.Estimate()}
}

// Incomplete returns the cost of a call without a whole answer: what the provider has counted, and an estimate of the rest.
// There is no rest if the provider has ended the answer with an error and has counted all of it, or has not begun it. err
// is why there is no whole answer. output is the likely number of tokens of an answer of which nothing has come.
func (f Forecast) Incomplete(a Facts, err error, output int64) (used, rest cost.Usage) {
	var fault *Fault
	ended := errors.As(err, &fault) && !fault.Cut // by the provider
	spent := f.Spent(a)
	switch {
	case a.Counted:
		used = f.Priced(a.Usage, a.Tier)
		used.CostUSD = max(used.CostUSD, a.Cost)
		if !ended && a.Bytes == 0 { // the model may have reasoned until now
			a.Usage.OutputTokens = max(a.Usage.OutputTokens, min(output, f.MaxOutput))
			spent = f.Spent(a)
		}
	case a.Bytes > 0:
	case Unbilled(err), ended && fault.Status == http.StatusOK && a.ID == "":
		spent = cost.Usage{}
	default:
		spent = f.Estimated(min(output, f.MaxOutput))
	}
	return used, spent.Minus(used)
}

// Checked returns the facts with a note if the provider states another cost than its prices in the worker
// file give for its counts, by more than a hundredth.
func (f Forecast) Checked(a Facts) Facts {
	ours := f.Priced(a.Usage, a.Tier).CostUSD
	if a.Differs == "" && a.Counted && f.Prices != nil && a.Cost > 0 && max(ours-a.Cost, a.Cost-ours) > max(ours, a.Cost)/100 {
		a.Differs = fmt.Sprintf("the provider says that it costs %s USD; by the prices in the worker file it costs %s USD", a.Cost,
			ours)
	}
	return a
}

// Unlisted returns the service tier of an answer if it has no prices although others have; else
// empty.
func (f Forecast) Unlisted(a Facts) string {
	if tier := tierOf(a.Tier); f.Prices != nil && !f.Prices.Has(tier) {
		return tier
	}
	return ""
}

// Priced adds the cost to a usage, at the prices of the service tier that the answer names in the
// provider's word; empty: of the requested tier.
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
