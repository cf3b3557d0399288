package wire

import (
	"bytes"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	// maxSearches is more searches than an answer has.
	maxSearches = 1000
	// maxWindow is the most tokens of a prompt, and maxImage those of an image.
	maxWindow, maxImage = 1 << 20, 1 << 16
)

// refers notes that the body refers to a part of the prompt. It may have so many tokens.
func (q *Request) refers(l leaf, tokens int64) {
	if l.quoted && l.size > 0 && !bytes.HasPrefix(l.raw, []byte("data:")) {
		q.Elsewhere = min(q.Elsewhere+tokens, maxWindow)
	}
}

// usualTiers are the words of providers for what costs the usual prices.
var usualTiers = []string{"auto", "default", "standard", "standard_only", "on_demand", "global", "not_available"}

// tierOf is the service tier that a text of [joinTiers] names, as [cost.Prices] has it; empty: the usual one.
func tierOf(joined string) string {
	words := slices.DeleteFunc(strings.Split(joined, "+"), func(word string) bool { return slices.Contains(usualTiers, word) })
	return strings.Join(words, "+")
}

// joinTiers joins what is said of the tier, the speed and the place of a call.
func joinTiers(words []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" }), "+")
}

// word is the value as one word in small letters; empty: it is null.
func (l leaf) word() string {
	if !l.quoted {
		return ""
	}
	return textfmt.Shorten(strings.ToLower(l.text()), 80)
}
