package devserver

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ctx, Options{Headless: true, DBFilename: filepath.Join(t.TempDir(), "t.db")})
	require.ErrorIs(t, err, context.Canceled)
}

func TestTheFileHasTheNameThatWasAskedFor(t *testing.T) {
	t.Parallel()
	options := Options{Headless: true, DBFilename: filepath.Join(t.TempDir(), "sub dir", "a?b%20#c.db")}
	server, err := Start(t.Context(), options)
	require.NoError(t, err)
	require.NoError(t, server.Stop())
	info, err := os.Stat(options.DBFilename)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "histories are the owner's business")
}

func TestParseSearchAttribute(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]enumspb.IndexedValueType{
		"A=Keyword":                     enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"A=KeywordList":                 enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
		"A=INDEXED_VALUE_TYPE_DATETIME": enumspb.INDEXED_VALUE_TYPE_DATETIME,
		"A=Text":                        enumspb.INDEXED_VALUE_TYPE_TEXT,
		"A=Int":                         enumspb.INDEXED_VALUE_TYPE_INT,
		"A=Double":                      enumspb.INDEXED_VALUE_TYPE_DOUBLE,
		"A=" + enumspb.INDEXED_VALUE_TYPE_BOOL.String(): enumspb.INDEXED_VALUE_TYPE_BOOL,
	} {
		name, kind, err := ParseSearchAttribute(text)
		require.NoError(t, err, text)
		require.Equal(t, "A", name)
		require.Equal(t, want, kind, text)
	}
	for _, text := range []string{"", "A", "A=", "=Int", "A=Unspecified", "A=Integer"} {
		_, _, err := ParseSearchAttribute(text)
		require.ErrorContains(t, err, "want NAME=TYPE", text)
	}
	_, _, err := ParseSearchAttribute("WorkflowId=Keyword")
	require.ErrorContains(t, err, `"WorkflowId": this name belongs to Temporal`)
}

func TestParseSetting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"history.maxInFlightUpdates=7":              7,
		"matching.enableFairness=false":             false,
		`history.timerProcessorMaxTimeShift="20ms"`: "20ms",
		"frontend.enableServerVersionCheck=false":   false,
		"HISTORY.maxinflightupdates=8":              8,
	} {
		setting, err := ParseSetting(text)
		require.NoError(t, err, text)
		got := dynamicSettings([]Setting{setting}).GetValue(setting.key)
		require.Len(t, got, 1, text)
		require.Equal(t, want, got[0].Value, text)
	}
	for text, want := range map[string]string{
		"history.maxInFlightUpdates":          "want KEY=JSON",
		"history.maxInFlightUpdates=many":     "is not JSON",
		`history.maxInFlightUpdates="x"`:      "history.maxInFlightUpdates",
		"history.maxInFlightUpdate=1":         "unregistered key",
		"history.timerProcessorMaxTimeShift=": "is not JSON",
	} {
		_, err := ParseSetting(text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	port, err := freePort(t.Context(), internalIP)
	require.NoError(t, err)
	require.NoError(t, checkPort(t.Context(), "port", internalIP, port, 0))
	listener, err := net.Listen("tcp", net.JoinHostPort(internalIP, strconv.Itoa(port)))
	require.NoError(t, err)
	require.ErrorContains(t, checkPort(t.Context(), "ui-port", internalIP, port, 0),
		"is in use by another process; stop that one, or choose another port with --ui-port")
	time.AfterFunc(portPatience/10, func() { _ = listener.Close() })
	require.NoError(t, checkPort(t.Context(), "port", internalIP, port, portPatience), "a port that is being given up is waited for")
}

func TestAFileThatIsNoDatabase(t *testing.T) {
	t.Parallel()
	filename := filepath.Join(t.TempDir(), "other.db")
	require.NoError(t, os.WriteFile(filename, []byte("this is no database, but some text of a certain length"), 0o600))
	_, err := Start(t.Context(), Options{Headless: true, DBFilename: filename})
	require.ErrorContains(t, err, filename)
}

func TestAStartThatWasCutOffLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	filename := filepath.Join(t.TempDir(), "t.db")
	require.NoError(t, os.WriteFile(filename+".new", []byte("half a database"), 0o600))
	server, err := Start(t.Context(), Options{Headless: true, DBFilename: filename})
	require.NoError(t, err)
	require.NoError(t, server.Stop())
}

func TestFatalErrorsReachTheProgram(t *testing.T) {
	t.Parallel()
	var got error
	base := newLogger(func(err error) { got = err }, new(atomic.Bool))
	cause := errors.New("address in use")
	log.With(base, tag.NewStringTag("service", "history")).Fatal("Failed to listen", tag.Error(cause))
	require.ErrorIs(t, got, cause)
	require.EqualError(t, got, "Failed to listen: address in use")
}
