package terminal

import (
	"fmt"
	"strconv"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Number writes n in groups of three, as people read large numbers.
func Number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Short writes a large number in four figures at most.
func Short(n int64) string {
	value, unit := float64(n), -1
	for value >= 1000 && unit < 2 {
		value, unit = value/1000, unit+1
	}
	if unit < 0 {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + "kMG"[unit:unit+1]
}

// Verbed is a number, its noun, and the verb that goes with it.
func Verbed(n int, noun, one, many string) string {
	if n == 1 {
		return "1 " + noun + " " + one
	}
	return textfmt.Count(n, noun) + " " + many
}

// Span writes a duration for people, to the second.
func Span(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Days writes a duration in days if it is a whole number of them.
func Days(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 0 && d%(24*time.Hour) == 0 {
		return textfmt.Count(int(days), "day")
	}
	return textfmt.Duration(d).String()
}

// Moment writes a time for people; a dash for none.
func Moment(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// Money is the cost of usage, to be said after its tokens; empty where it is not known.
func Money(u cost.Usage) string {
	if u.CostUSD == 0 {
		return ""
	}
	return fmt.Sprintf(", %s USD", u.CostUSD.Rounded())
}

// Age writes how long something has lasted, in its two largest units.
func Age(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	days := int(d / (24 * time.Hour))
	switch {
	case days > 0:
		return fmt.Sprintf("%dd %dh", days, int(d.Hours())%24)
	case d >= time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}

// Figure is a number, or a dash for none.
func Figure(n int64) string {
	if n == 0 {
		return "-"
	}
	return Number(n)
}

// Dollars is an amount of money, or a dash for none.
func Dollars(u cost.USD) string {
	if u == 0 {
		return "-"
	}
	return u.Rounded().String()
}

// Amount writes what was or may be spent: of an agent that counts no tokens, the money.
func Amount(a cost.Amount) string {
	switch {
	case a.USD == 0:
		return Number(a.Tokens) + " tokens"
	case a.Tokens == 0:
		return a.USD.Rounded().String() + " USD"
	}
	return Number(a.Tokens) + " tokens, " + a.USD.Rounded().String() + " USD"
}

// Cap says what a cap allows.
func Cap(c spec.Cap) string { return AmountIn(cost.Amount(c), c) }

// AmountIn says an amount in what the cap counts.
func AmountIn(a cost.Amount, c spec.Cap) string {
	switch {
	case c.Tokens > 0 && c.USD > 0:
		return fmt.Sprintf("%s tokens and %s USD", Number(a.Tokens), a.USD.Rounded())
	case c.USD > 0:
		return a.USD.Rounded().String() + " USD"
	}
	return Number(a.Tokens) + " tokens"
}
