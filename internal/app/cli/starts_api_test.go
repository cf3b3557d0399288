package cli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
)

// caller calls the API of a server with a token.
type caller struct {
	t          *testing.T
	url, token string
}

// served serves the desk's store with more flags, and returns a caller with roles.
func (d *desk) served(flags []string, roles ...string) caller {
	d.t.Helper()
	server := d.begin(append([]string{"serve", "--listen", "127.0.0.1:0"}, flags...)...)
	server.says("sign in")
	url := regexp.MustCompile(`API +(\S+)`).FindStringSubmatch(server.stderr.String())[1]
	args := []string{"token", "create", "test"}
	for _, role := range roles {
		args = append(args, "--role", role)
	}
	return caller{d.t, url, strings.TrimSpace(d.must(0, args...))}
}

// call calls an operation and decodes its answer, or that of a failure into nothing.
func (c caller) call(method, path string, body any, into any, header ...string) (status int, text string) {
	c.t.Helper()
	data, isData := body.([]byte)
	if !isData && body != nil {
		var err error
		data, err = json.Marshal(body)
		require.NoError(c.t, err)
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, bytes.NewReader(data))
	require.NoError(c.t, err)
	r.Header.Set("Authorization", "Bearer "+c.token)
	if !isData && body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	require.NoError(c.t, err)
	defer got.Body.Close()
	data, err = io.ReadAll(got.Body)
	require.NoError(c.t, err)
	if into != nil {
		require.Equal(c.t, http.StatusOK, got.StatusCode, "%s %s: %s", method, path, data)
		require.NoError(c.t, json.Unmarshal(data, into))
	}
	return got.StatusCode, string(data)
}

// until waits until a session is in a state.
func (c caller) until(sessionID string, state session.State) session.Status {
	c.t.Helper()
	var s session.Status
	until(c.t, func() bool {
		c.call("GET", "/sessions/"+sessionID, nil, &s)
		return s.Status == state
	}, "session %s: %+v", sessionID, &s)
	return s
}
