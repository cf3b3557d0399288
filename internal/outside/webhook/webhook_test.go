package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/outside/webhook"
)

// path is a part of an address that nobody may read in an error.
const path = "/services/T0/verysecretpath"

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func client(t *testing.T, url, secret string) *webhook.Client {
	t.Helper()
	c, err := webhook.New(webhook.Options{
		URL: url, Secret: secret, Timeout: time.Minute, Version: "1.2", Clock: func() time.Time { return noon },
	})
	require.NoError(t, err)
	return c
}

func notice() session.Notice {
	return session.Notice{
		Schema: session.NoticeSchema, ID: "s.1", Event: session.HelpAsked, Session: "s",
		Request: &session.Request{ID: "build.dev.1"},
	}
}

func TestNoticeIsPostedAsJSONAndSigned(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer server.Close()
	require.NoError(t, client(t, server.URL+path, "a long secret").Deliver(t.Context(), notice()))
	require.Equal(t, http.MethodPost, got.Method)
	require.Equal(t, path, got.URL.Path)
	require.Equal(t, "application/json; charset=utf-8", got.Header.Get("Content-Type"))
	require.Equal(t, "maestro/1.2", got.Header.Get("User-Agent"))
	require.Equal(t, "help_needed", got.Header.Get(webhook.EventHeader))
	require.Equal(t, "s.1", got.Header.Get(webhook.DeliveryHeader))
	mac := hmac.New(sha256.New, []byte("a long secret"))
	mac.Write(body)
	require.Equal(t, "sha256="+hex.EncodeToString(mac.Sum(nil)), got.Header.Get(webhook.SignatureHeader))
	var told session.Notice
	require.NoError(t, json.Unmarshal(body, &told))
	require.Equal(t, notice(), told)

	require.NoError(t, client(t, server.URL, "").Deliver(t.Context(), notice()))
	require.Empty(t, got.Header.Get(webhook.SignatureHeader))
}

func TestAnswersAreFinalOrNot(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		header map[string]string
		final  bool
		after  time.Duration
	}{
		{status: 400, final: true},
		{status: 401, final: true},
		{status: 404, final: true},
		{status: 410, final: true},
		{status: 304, final: true},
		{status: 408},
		{status: 425},
		{status: 429, header: map[string]string{"Retry-After": "17"}, after: 17 * time.Second},
		{status: 429, header: map[string]string{"Retry-After": "-1"}},
		{status: 500},
		{status: 503, header: map[string]string{"Retry-After": noon.Add(time.Minute).Format(http.TimeFormat)}, after: time.Minute},
		{status: 503, header: map[string]string{"Retry-After": "86400"}, after: time.Hour},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range tt.header {
				w.Header().Set(k, v)
			}
			w.WriteHeader(tt.status)
		}))
		err := client(t, server.URL+path, "").Deliver(t.Context(), notice())
		server.Close()
		var trouble *session.WebhookTrouble
		require.ErrorAs(t, err, &trouble)
		require.Equal(t, tt.final, trouble.Final, "%d", tt.status)
		require.Equal(t, tt.after, trouble.RetryAfter.Std(), "%d", tt.status)
		require.Contains(t, trouble.Message, "the webhook answered ")
	}
}

func TestRedirectsAreFollowedOnTheirHostOnly(t *testing.T) {
	t.Parallel()
	var elsewhere, arrived int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.Handle("/here", http.RedirectHandler("/there", http.StatusPermanentRedirect))
	mux.HandleFunc("/there", func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.Method == http.MethodPost && len(body) > 0 {
			arrived++
		}
	})
	mux.Handle("/away", http.RedirectHandler(other.URL+path, http.StatusPermanentRedirect))
	mux.Handle("/lost", http.RedirectHandler("/there", http.StatusFound))
	mux.Handle("/round", http.RedirectHandler("/round", http.StatusPermanentRedirect))

	require.NoError(t, client(t, server.URL+"/here", "").Deliver(t.Context(), notice()))
	require.Equal(t, 1, arrived)
	for _, from := range []string{"/away", "/lost", "/round"} {
		err := client(t, server.URL+from, "").Deliver(t.Context(), notice())
		var trouble *session.WebhookTrouble
		require.ErrorAs(t, err, &trouble)
		require.True(t, trouble.Final, from)
		require.NotContains(t, trouble.Message, "http")
	}
	require.Zero(t, elsewhere)
	require.Equal(t, 1, arrived)
}

func TestAddressShowsInNoError(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	closed := "http://user:passw0rd@" + listener.Addr().String() + path
	require.NoError(t, listener.Close())
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	}))
	defer hung.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	untrusted := httptest.NewUnstartedServer(nil)
	untrusted.Config.ErrorLog = nil
	untrusted.StartTLS()
	defer untrusted.Close()

	for name, url := range map[string]string{
		"connection refused": closed, "no answer within": hung.URL + path, "the connection was closed": cut.URL + path,
		"certificate": untrusted.URL + path,
	} {
		limit := time.Minute
		if url == hung.URL+path {
			limit = 300 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := client(t, url, "").Deliver(ctx, notice())
		cancel()
		var trouble *session.WebhookTrouble
		require.ErrorAs(t, err, &trouble)
		require.False(t, trouble.Final)
		require.Contains(t, trouble.Message, name)
		for _, secret := range []string{"verysecret", "passw0rd", "127.0.0.1", "http"} {
			require.NotContains(t, trouble.Message, secret)
		}
	}
	for _, bad := range []string{"", "hooks.example.org/verysecretpath", "ftp://verysecretpath", "http://verysecretpath\x7f"} {
		_, err := webhook.New(webhook.Options{URL: bad})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "verysecret")
	}
}

func TestLongNoticesAreCut(t *testing.T) {
	t.Parallel()
	var told session.Notice
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&told)
	}))
	defer server.Close()
	long := notice()
	for range 2000 {
		long.Request.Attempts = append(long.Request.Attempts, session.AttemptFailure{Message: strings.Repeat("x", 300)})
	}
	long.Request.Attempts[1999].Message = "the last"
	require.NoError(t, client(t, server.URL, "").Deliver(t.Context(), long))
	require.Less(t, len(told.Request.Attempts), 1000)
	require.Equal(t, "the last", told.Request.Attempts[len(told.Request.Attempts)-1].Message)
	require.Len(t, long.Request.Attempts, 2000)

	long.Reason = strings.Repeat("x", 300*1024)
	require.ErrorContains(t, client(t, server.URL, "").Deliver(t.Context(), long), "longer than 262144 bytes")
}
