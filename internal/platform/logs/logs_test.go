package logs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/logs"
)

func noEnvironment(string) string { return "" }

func TestALineIsOneLineWithoutSecrets(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l, err := logs.Options{Format: "json"}.New(&out, noEnvironment)
	require.NoError(t, err)
	l.Mask(func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") })
	l.With("before", "hunter2").WithGroup("g").Info("said\nhunter2",
		"error", errors.New("one hunter2\r\ntwo"), "wait", 1500*time.Millisecond, "n", 3, slog.Group("in", "key", "hunter2"))
	l.Debug("not this")
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	delete(line, "time")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "said | ***", "before": "***",
		"g": map[string]any{"error": "one *** | two", "wait": "1.5s", "n": 3.0, "in": map[string]any{"key": "***"}},
	}, line)
}

func TestUnknownFormatsAndLevelsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := logs.Options{Format: "yaml"}.New(nil, noEnvironment)
	require.EqualError(t, err, `unknown log format "yaml"; use text or json; see --log-format, --log-level, MAESTRO_LOG_FORMAT and MAESTRO_LOG_LEVEL`)
	for _, level := range []string{"loud", "info+2"} {
		_, err = logs.Options{Level: level}.New(nil, noEnvironment)
		require.ErrorContains(t, err, "use debug, info, warn or error")
	}
}

func TestAContextGathersWhatItsLinesAreAbout(t *testing.T) {
	t.Parallel()
	outer := logs.With(t.Context(), logs.Phase, "build")
	inner := logs.With(outer, logs.Attempt, 2)
	other := logs.With(outer, logs.Attempt, 3)
	require.Empty(t, logs.Of(t.Context()))
	require.Equal(t, []any{logs.Phase, "build", logs.Attempt, 2}, logs.Of(inner))
	require.Equal(t, []any{logs.Phase, "build", logs.Attempt, 3}, logs.Of(other))
}
