package store

import "testing"

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
