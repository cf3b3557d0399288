package preset

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
)

// TestCodexDoesNotAskForRefusedTools: its web search is a part of each request otherwise.
func TestCodexDoesNotAskForRefusedTools(t *testing.T) {
	t.Parallel()
	for _, offline := range []bool{false, true} {
		argv := codex.Command([]string{"codex", "exec"}, Invocation{
			BaseURL: "http://127.0.0.1:1/v1", KeyVariable: "K",
			Offline: offline,
		})
		if offline {
			require.Contains(t, argv, "web_search=disabled")
		} else {
			require.NotContains(t, argv, "web_search=disabled")
		}
	}
}

// TestAnErrorDocumentIsNotShownAsJSON: Codex repeats the body of an answer with 400.
func TestAnErrorDocumentIsNotShownAsJSON(t *testing.T) {
	t.Parallel()
	f := codexFailure(`{"error": {"message": "Unknown parameter: 'x'.", "type": "invalid_request_error", "code": null}}`)
	require.Equal(t, "Unknown parameter: 'x'.", f.Message)
	require.Equal(t, failures.InvalidRequest, f.Category)
	require.Equal(t, "stream {disconnected}", codexFailure("stream {disconnected}").Message)
}
