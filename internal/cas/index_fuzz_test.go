package cas

import (
	"crypto/sha256"
	"reflect"
	"strings"
	"testing"
)

// FuzzIndexDecode looks for what makes the reader of indexes panic, or accept
// what it would not write. The checksum is put right, since it would hide both.
func FuzzIndexDecode(f *testing.F) {
	x := newIndex(DigestOf(nil))
	x.add("a/b", stamp{1, 2, 3, 4, 5}, DigestOf([]byte("x")))
	whole := encodeIndex(x)
	f.Add(whole[:len(whole)-sha256.Size])
	f.Add([]byte(indexMagic + strings.Repeat("0", 64) + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		x := decodeIndex(append(body, sum[:]...))
		if x == nil {
			return
		}
		if again := decodeIndex(encodeIndex(x)); !reflect.DeepEqual(x, again) {
			t.Fatalf("%v became %v", x, again)
		}
	})
}

// FuzzIgnore looks for lines of a .gitignore that make matching panic.
func FuzzIgnore(f *testing.F) {
	f.Add("*.log\n!/a/**/[!b]{c}\\", "a/b/c.log")
	f.Fuzz(func(t *testing.T, text, p string) {
		if CheckPath(p) != nil {
			t.Skip()
		}
		parseIgnore(cacheRules(), ".", text).decide(p, 0)
	})
}
