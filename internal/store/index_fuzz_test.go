package store

import (
	"crypto/sha256"
	"reflect"
	"strings"
	"testing"
)

// FuzzIndexDecode looks for what makes the reader of indexes panic, or accept
// what it would not write. The checksum is put right, since it would hide both.
func FuzzIndexDecode(f *testing.F) {
	whole := encodeIndex(&index{
		manifest: digestOf(nil),
		files:    map[string]indexed{"a/b": {stamp: stamp{1, 2, 3, 4, 5}, digest: digestOf([]byte("x"))}},
	})
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

// FuzzUnseal looks for documents that are accepted without being as they were
// written.
func FuzzUnseal(f *testing.F) {
	sealed, err := seal(map[string]any{"schema": "x", "a": []any{1, "ü", nil, 0.5}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte(`{"sha256":"x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var doc map[string]any
		if unseal(data, &doc) != nil {
			return
		}
		again, err := seal(doc)
		if err != nil || string(again) != string(data) {
			t.Fatalf("%q became %q: %v", data, again, err)
		}
	})
}
