package textfmt

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes that is written as "100MB" or "64KiB" in YAML.
type ByteSize int64

// The decimal units.
const (
	Kilobyte ByteSize = 1000
	Megabyte          = 1000 * Kilobyte
	Gigabyte          = 1000 * Megabyte
)

// units lists the units of a ByteSize, those of String first.
var units = []struct {
	name  string
	bytes ByteSize
}{
	{"GB", Gigabyte},
	{"MB", Megabyte},
	{"kB", Kilobyte},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"B", 1},
}

// String formats the size in the largest decimal unit that divides it.
func (b ByteSize) String() string {
	for _, u := range units[:3] {
		if b != 0 && b%u.bytes == 0 {
			return strconv.FormatInt(int64(b/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// MarshalText writes the size as String does.
func (b ByteSize) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads a whole number with a unit: B, kB, MB, GB (powers of 1000)
// or KiB, MiB, GiB (powers of 1024), whatever their case. A number without a
// unit is a number of bytes.
func (b *ByteSize) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	digits := strings.TrimRight(s, "bBgGiIkKmM ")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit, ok := unitBytes(strings.TrimSpace(s[len(digits):]))
	if err != nil || !ok || n < 0 || n > math.MaxInt64/int64(unit) {
		return fmt.Errorf("%q is not a size; write a whole number with its unit, like 500kB, 100MB or 2GiB", s)
	}
	*b = ByteSize(n) * unit
	return nil
}

func unitBytes(name string) (ByteSize, bool) {
	if name == "" {
		return 1, true
	}
	for _, u := range units {
		if strings.EqualFold(name, u.name) {
			return u.bytes, true
		}
	}
	return 0, false
}
