package cost

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// USD is an amount of money in billionths of a dollar, so that sums are exact. Its text form is a
// plain decimal number of dollars.
type USD int64

// usdDigits is the number of decimals that a USD carries.
const usdDigits = 9

// String formats the amount as a decimal number of dollars, without a currency
// sign or trailing zeros.
func (u USD) String() string {
	sign, v := "", uint64(u) //nolint:gosec // Negative amounts are turned below.
	if u < 0 {
		sign, v = "-", -v // two's complement: right for the smallest amount, too
	}
	s := fmt.Sprintf("%010d", v)
	whole, frac := s[:len(s)-usdDigits], strings.TrimRight(s[len(s)-usdDigits:], "0")
	if frac == "" {
		return sign + whole
	}
	return sign + whole + "." + frac
}

// shown is the smallest displayed amount: a hundredth of a cent.
const shown USD = 100_000

// Rounded is the amount for display: to a hundredth of a cent, rounded up, so a cost above zero is
// never displayed as zero.
func (u USD) Rounded() USD {
	if rest := u % shown; rest > 0 {
		return u - rest + shown
	}
	return u
}

// Dollars is the amount in dollars, with the precision of a float.
func (u USD) Dollars() float64 { return float64(u) / 1_000_000_000 }

// MarshalJSON writes the amount as a JSON number, as String formats it.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalJSON reads a JSON number of dollars, rounding to the nearest
// billionth. Anything else, or an amount past nine billion dollars, is an error.
func (u *USD) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	return u.parse(string(data))
}

// UnmarshalText reads a number of dollars, as UnmarshalJSON does.
func (u *USD) UnmarshalText(data []byte) error { return u.parse(strings.TrimSpace(string(data))) }

func (u *USD) parse(s string) error {
	if strings.ContainsAny(s, "/_xXpPbBoO") || len(s) > 40 {
		return fmt.Errorf("%s is not an amount in USD; use a plain number, like 20 or 0.5", textfmt.Shorten(s, 80))
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return fmt.Errorf("%s is not an amount in USD; use a plain number, like 20 or 0.5", textfmt.Shorten(s, 80))
	}
	r.Mul(r, big.NewRat(1_000_000_000, 1))
	half := big.NewRat(1, 2)
	if r.Sign() < 0 {
		half.Neg(half)
	}
	r.Add(r, half)
	n := new(big.Int).Quo(r.Num(), r.Denom())
	if !n.IsInt64() {
		return fmt.Errorf("%s is too large an amount", textfmt.Shorten(s, 80))
	}
	*u = USD(n.Int64())
	return nil
}

// Usage is what work has cost. Input, output, cache read and cache write are
// disjoint: cached tokens are not part of the input tokens.
type Usage struct {
	InputTokens      int64 `json:"input_tokens"`
	OutputTokens     int64 `json:"output_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
	// ReasoningTokens is how many of the output tokens are reasoning.
	ReasoningTokens int64 `json:"reasoning_tokens,omitempty"`
	// CacheWrite1hTokens is how many of the cache write tokens are cached for an hour.
	CacheWrite1hTokens int64 `json:"cache_write_1h_tokens,omitempty" sql:"cache_write_1h_tokens"`
	// WebSearches is how many searches the provider made for the model.
	WebSearches int64 `json:"web_searches,omitempty"`
	// CostUSD is the money spent, as far as the agent reports it.
	CostUSD USD `json:"cost_usd" sql:"nano_usd"`
}

// MaxReported limits one report of usage: a larger figure is an error of the agent, and sums could
// overflow.
const MaxReported = 1_000_000_000_000

// Validate rejects negative and impossible figures.
func (u Usage) Validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"input_tokens", u.InputTokens},
		{"output_tokens", u.OutputTokens},
		{"cache_read_tokens", u.CacheReadTokens},
		{"cache_write_tokens", u.CacheWriteTokens},
		{"reasoning_tokens", u.ReasoningTokens},
		{"cache_write_1h_tokens", u.CacheWrite1hTokens},
		{"web_searches", u.WebSearches},
	} {
		if f.value < 0 || f.value > MaxReported {
			return fmt.Errorf("usage.%s is %d; it must be between 0 and %d", f.name, f.value, int64(MaxReported))
		}
	}
	if u.CostUSD < 0 || u.CostUSD > 1_000_000*1_000_000_000 {
		return errors.New("usage.cost_usd must be between 0 and 1000000")
	}
	return nil
}

// Add returns the sum of both.
func (u Usage) Add(v Usage) Usage { return u.each(v, func(a, b int64) int64 { return a + b }) }

// Minus returns the difference of both.
func (u Usage) Minus(v Usage) Usage { return u.each(v, func(a, b int64) int64 { return a - b }) }

// Max returns the larger value of each figure.
func (u Usage) Max(v Usage) Usage { return u.each(v, func(a, b int64) int64 { return max(a, b) }) }

// each applies an operation to each figure of both.
func (u Usage) each(v Usage, of func(a, b int64) int64) Usage {
	return Usage{
		InputTokens:        of(u.InputTokens, v.InputTokens),
		OutputTokens:       of(u.OutputTokens, v.OutputTokens),
		CacheReadTokens:    of(u.CacheReadTokens, v.CacheReadTokens),
		CacheWriteTokens:   of(u.CacheWriteTokens, v.CacheWriteTokens),
		ReasoningTokens:    of(u.ReasoningTokens, v.ReasoningTokens),
		CacheWrite1hTokens: of(u.CacheWrite1hTokens, v.CacheWrite1hTokens),
		WebSearches:        of(u.WebSearches, v.WebSearches),
		CostUSD:            USD(of(int64(u.CostUSD), int64(v.CostUSD))),
	}
}

// Text is the usage for display.
func (u Usage) Text() string {
	text := fmt.Sprintf("tokens: %d in, %d out, %d from and %d into the cache", u.InputTokens, u.OutputTokens, u.CacheReadTokens,
		u.CacheWriteTokens)
	if u.WebSearches > 0 {
		text += fmt.Sprintf("; %s", textfmt.Count(int(u.WebSearches), "web search"))
	}
	if u.CostUSD != 0 {
		text += fmt.Sprintf("; %s USD", u.CostUSD)
	}
	return text
}

// Prompt is the number of the tokens that were read, cached or not.
func (u Usage) Prompt() int64 { return u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens }

// Tokens is the number of all tokens, read or written, cached or not: the number that token budgets
// limit. Reasoning is part of the output.
func (u Usage) Tokens() int64 {
	return u.Prompt() + u.OutputTokens
}

// Amount is the part of the usage that a budget limits.
func (u Usage) Amount() Amount { return Amount{Tokens: u.Tokens(), USD: u.CostUSD} }

// Amount is a part of a budget: tokens and money, each counted separately.
type Amount struct {
	Tokens int64 `json:"tokens"`
	USD    USD   `json:"usd" sql:"nano_usd"`
}

// Add returns the sum of both.
func (a Amount) Add(b Amount) Amount { return Amount{a.Tokens + b.Tokens, a.USD + b.USD} }
