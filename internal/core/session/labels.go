package session

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// The limits of a session's labels.
const (
	MaxLabels     = 16
	MaxLabelValue = 128
)

var labelKey = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// ParseLabels reads labels that are written as KEY=VALUE, and checks them.
func ParseLabels(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	labels := map[string]string{}
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if _, twice := labels[key]; !ok || twice {
			return nil, fmt.Errorf("%q is not KEY=VALUE, or its key is given twice", textfmt.Shorten(pair, 80))
		}
		labels[key] = value
	}
	return labels, CheckLabels(labels)
}

// CheckLabels rejects labels that no session can have.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("%d labels are given; a session has %d at most", len(labels), MaxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		switch {
		case !labelKey.MatchString(key):
			return fmt.Errorf("%q is not the key of a label: it must be 1 to 63 letters, digits, -, _ or ., and start and end with a "+
				"letter or digit", textfmt.Shorten(key, 80))
		case value == "" || len(value) > MaxLabelValue:
			return fmt.Errorf("the value of label %s has %d bytes; it must have 1 to %d", key, len(value), MaxLabelValue)
		case !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
			return fmt.Errorf("the value of label %s has unprintable characters; use one line of text", key)
		}
	}
	return nil
}
