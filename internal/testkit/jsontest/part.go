// Package jsontest holds JSON documents against parts of them.
package jsontest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Has reports whether a document has a part, which is written as JSON: objects of the document may have more members, arrays not
// more elements.
func Has(t testing.TB, document, part string) bool {
	t.Helper()
	var got, want any
	require.NoError(t, json.Unmarshal([]byte(document), &got), document)
	require.NoError(t, json.Unmarshal([]byte(part), &want), part)
	return within(want, got)
}

func within(want, got any) bool {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := got.(map[string]any)
		for name, value := range want {
			ok = ok && within(value, fields[name])
		}
		return ok
	case []any:
		elements, ok := got.([]any)
		ok = ok && len(elements) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = within(want[i], elements[i])
		}
		return ok
	}
	return want == got
}
