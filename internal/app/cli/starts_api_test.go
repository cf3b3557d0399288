package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/state/statetest"
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

type fields = map[string]any

func TestAStartWhoseCallerLeavesIsNotRepeated(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	s, err := store.Create(d.state, store.Options{Clock: time.Now})
	require.NoError(t, err)
	agents := map[string]spec.OfferedAgent{"coder": {Kind: "command", Concurrency: 1, Digest: spec.Digest(strings.Repeat("1", 64))}}
	require.NoError(t, s.State.PutOffer(t.Context(), spec.Offer{Worker: "w", Agents: agents, StartedAt: time.Now(), RenewedAt: time.Now()})) // and polls nothing
	c := d.served(nil, "operator")
	start := func(ctx context.Context) (control.Started, *http.Response, error) {
		body := strings.NewReader(`{"team": {"file": ` + strconv.Quote(oneTeam) + `}, "requirement": "Make it so."}`)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/sessions", body)
		require.NoError(t, err)
		r.Header = http.Header{"Authorization": {"Bearer " + c.token}, "Content-Type": {"application/json"}, "Idempotency-Key": {"k"}}
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			return control.Started{}, nil, err
		}
		defer got.Body.Close()
		var doc control.Started
		return doc, got, json.NewDecoder(got.Body).Decode(&doc)
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, _, err := start(ctx)
		left <- err
	}()
	var all control.SessionList
	sessions := func() int {
		c.call("GET", "/sessions", nil, &all)
		return len(all.Sessions)
	}
	until(t, func() bool { return sessions() == 1 }, "sessions: %+v", &all)
	leave() // no worker has admitted it
	require.ErrorIs(t, <-left, context.Canceled)
	until(t, func() bool {
		doc, got, err := start(t.Context())
		if err != nil || got.StatusCode == http.StatusConflict {
			return false
		}
		require.Equal(t, http.StatusOK, got.StatusCode)
		require.Equal(t, "true", got.Header.Get("Idempotent-Replayed"))
		require.Equal(t, all.Sessions[0].Session, doc.Session)
		require.False(t, doc.Admitted)
		return true
	}, "the first answer is kept")
	require.Equal(t, 1, sessions())
}

func TestAChangeWithAKeyIsMadeOnceAlsoIfItsAnswerWasLost(t *testing.T) {
	t.Parallel()
	d := newDesk(t).withServer()
	d.withWorker(map[string]string{"writer": "mkdir -p docs; echo '# Design' > docs/design.md", "coder": "cat docs/design.md > code.txt"})
	c := d.served(nil, "operator:pair")
	db := statetest.SQLite(t, d.state)
	change := func(path string, body any, into any) {
		c.call("POST", path, body, into, "Idempotency-Key", "k")
		// The server was killed before it has stored the answer.
		lost, err := db.ExecContext(t.Context(), `update idempotency set status = 0, answer = '', tried_at = 0`)
		require.NoError(t, err)
		rows, err := lost.RowsAffected()
		require.NoError(t, err)
		require.EqualValues(t, 1, rows)
	}
	start := fields{"team": fields{"file": twoTeam + "budget: {tokens: 1000000}\n"}, "requirement": "Make it so.", "pause_after": []string{"think"}}
	var started, again control.Started
	change("/sessions", start, &started)
	change("/sessions", start, &again)
	require.Equal(t, started, again)
	c.until(started.Session, session.AwaitingApproval)

	raise := fields{"tokens": 50, "session": true}
	for range 2 {
		var raised control.Raised
		change("/sessions/"+started.Session+"/budget/raise", raise, &raised)
		require.NotNil(t, raised.Raised)
	}
	var budgets control.Budgets
	c.call("GET", "/sessions/"+started.Session+"/budgets", nil, &budgets)
	require.Len(t, budgets.Raises, 1)

	fork := fields{"from": "think"}
	var forked control.Started
	change("/sessions/"+started.Session+"/fork", fork, &forked)
	change("/sessions/"+started.Session+"/fork", fork, &again)
	require.Equal(t, forked.Session, again.Session)
	var all control.SessionList
	c.call("GET", "/sessions", nil, &all)
	require.Len(t, all.Sessions, 2)
}
