package wire

import (
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/textfmt"
)

// maxSearches is more searches than an answer has.
const maxSearches = 1000

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
