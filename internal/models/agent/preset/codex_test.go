package preset

import (
	"testing"

	"github.com/stretchr/testify/require"
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
