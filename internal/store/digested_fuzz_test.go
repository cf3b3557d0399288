package store

import (
	"encoding/json"
	"testing"
)

// FuzzDecodeDigested changes sealed documents: none is accepted.
func FuzzDecodeDigested(f *testing.F) {
	f.Add([]byte(`{"schema":"x","a":[1,"ü",null,0.5]}`), 3, byte(1))
	f.Add([]byte(`{"a":{"sha256":""}}`), -1, byte('0'))
	f.Fuzz(func(t *testing.T, object []byte, at int, change byte) {
		var doc, again map[string]any
		if json.Unmarshal(object, &doc) != nil || len(doc) == 0 {
			return
		}
		data, err := encodeDigested(doc)
		if err != nil {
			t.Fatal(err)
		}
		if err := decodeDigested(data, &again); err != nil {
			t.Fatalf("%q is refused: %v", data, err)
		}
		at = int(uint(at) % uint(len(data)))
		if data[at] ^= change; change != 0 && decodeDigested(data, &again) == nil {
			t.Fatalf("%q is accepted with byte %d changed", data, at)
		}
	})
}
