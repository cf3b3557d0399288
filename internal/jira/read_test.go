package jira

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWholeDocument reads a document as a person would write one in Jira.
func TestWholeDocument(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("testdata", "requirement.adf.json"))
	require.NoError(t, err)
	text, err := descriptionText(doc)
	require.NoError(t, err)
	golden(t, "requirement.txt", text+"\n")
}

func TestDescriptionsThatAreNoDocument(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{``: "", `null`: "", `"h1. Title\r\n{code}x{code}"`: "h1. Title\n{code}x{code}", `{"type":"doc","content":[{"text":7},{"text":"x"}]}`: "x"} {
		text, err := descriptionText(json.RawMessage(in))
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
	_, err := descriptionText(json.RawMessage(`{"type"`))
	require.Error(t, err)
}

// FuzzText: whatever a document says, it is read, and what is nested deep keeps its words.
func FuzzText(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.json"))
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	const levels = 1500
	f.Add([]byte(strings.Repeat(`{"type":"blockquote","content":[`, levels) + `{"type":"text","text":"bottom"}` + strings.Repeat(`]}`, levels)))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := descriptionText(data)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(text), 4*(len(data)+100))
		if strings.Contains(string(data), `{"type":"text","text":"bottom"}]}`) {
			require.Contains(t, text, "bottom")
		}
	})
}
