package agent

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/models/transcript"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
)

func FuzzResult(f *testing.F) {
	for _, seed := range []string{
		`{"summary":"x","usage":{"input_tokens":1,"cost_usd":0.1},"decisions":{"a":"b"},"error":{"category":"auth","retryable":false}}`,
		`{"usage":{"input_tokens":1e400}}`, `{"usage":{"cost_usd":"1"}}`, `[]`, `null`, `{} {}`, "{", "\x00", `{"Summary":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseResult(data)
		require.NoError(t, r.Usage.Validate()) // whatever else is wrong
		if err != nil {
			require.NotContains(t, err.Error(), "Go ")
			require.Equal(t, result{Usage: r.Usage}, r)
			return
		}
		require.NoError(t, session.CheckDecisions(r.Decisions))
	})
}

// FuzzPresetStreams feeds the readers anything: they must not fall over it,
// count what cannot be, or name categories that there are not.
func FuzzPresetStreams(f *testing.F) {
	for _, program := range []string{preset.Claude, preset.Codex, preset.Gemini} {
		for _, end := range []string{"done", "429"} {
			data, err := os.ReadFile(filepath.Join("testdata", "streams", program+"-"+end+".jsonl"))
			require.NoError(f, err)
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, program := range []string{preset.Claude, preset.Codex, preset.Gemini} {
			log := transcript.New(io.Discard, strings.ToUpper)
			s := &preset.Run{
				Log: log, Warnings: log, OnLine: func(string) {}, OnConversation: func(string) {},
				OnUsage: func(_, _ cost.Usage) {}, Stop: func(*failures.Failure) {}, Pending: map[string]bool{},
			}
			r := preset.For(program).Parser(preset.Invocation{})
			l := &procgroup.Lines{OnLine: func(line []byte) { r.Event(line, s) }}
			l.Add(data)
			l.End()
			r.End(1, "", s)
			require.NoError(t, s.Used.Validate())
			if s.Failure != nil {
				require.True(t, failures.ValidCategory(s.Failure.Category))
			}
		}
	})
}
