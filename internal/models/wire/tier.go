package wire

import (
	"bytes"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

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

// tierOf returns the service tier in the result of [joinTiers], as [cost.Prices] names it; empty:
// the usual one.
func tierOf(joined string) string {
	words := slices.DeleteFunc(strings.Split(joined, "+"), func(word string) bool { return slices.Contains(usualTiers, word) })
	return strings.Join(words, "+")
}

// joinTiers joins the stated tier, speed and place of a call.
func joinTiers(words []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "" }), "+")
}

// word returns the value as one word in lower case; empty: it is null.
func (l leaf) word() string {
	if !l.quoted {
		return ""
	}
	return textfmt.Shorten(strings.ToLower(l.text()), 80)
}
