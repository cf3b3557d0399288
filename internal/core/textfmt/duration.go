package textfmt

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration that is written as "30m" in YAML and JSON.
type Duration time.Duration

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String formats d as time.Duration does, without the parts at its end that
// are zero: 30m, not 30m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes d as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads "90s", "30m" or "1h30m"; a bare number has no unit and is an error.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration; write it with its unit, like 90s, 30m or 1h30m", text)
	}
	*d = Duration(v)
	return nil
}
