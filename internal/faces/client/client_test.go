package client_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/faces/client"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/store"
)

// answering returns a client of a server that answers so, and a count of its calls.
func answering(t *testing.T, answer http.HandlerFunc) (*client.Client, *atomic.Int32) {
	t.Helper()
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{URL: server.URL, Token: "secret", Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, &calls
}

func problem(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"status": %d, "detail": %q}`, status, text)
}

func TestARequestThatIsUnderWayIsWaitedFor(t *testing.T) {
	t.Parallel()
	keys := map[string]int{}
	c, calls := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if keys[r.Header.Get("Idempotency-Key")]++; keys[r.Header.Get("Idempotency-Key")] < 8 {
			w.Header().Set("Retry-After-Ms", "10")
			problem(w, http.StatusConflict, "under way")
			return
		}
		_, _ = io.WriteString(w, `{"session": "s"}`)
	})
	started, err := client.Call(t.Context(), c, httpapi.StartSession,
		httpapi.Body[control.NewSession]{Body: control.NewSession{Session: "s"}})
	require.NoError(t, err)
	require.Equal(t, "s", started.Session)
	require.EqualValues(t, 8, calls.Load())
}

func TestABusyServerIsNotAskedAgainBeforeItsTime(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		c, calls := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			problem(w, status, "too many calls")
		})
		_, err := client.Call(t.Context(), c, httpapi.ReadSession, httpapi.OfSession{Session: "s"})
		var busy *client.BusyError
		require.ErrorAs(t, err, &busy)
		require.ErrorContains(t, err, "is busy: too many calls")
		require.True(t, client.Away(err))
		require.EqualValues(t, 1, calls.Load())
	}
}

func TestAWrongTokenIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	c, calls := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="maestro", error="invalid_token"`)
		w.Header().Set("Retry-After", "6")
		problem(w, http.StatusTooManyRequests, "the token is unknown, revoked or expired")
	})
	_, err := client.Call(t.Context(), c, httpapi.ReadSession, httpapi.OfSession{Session: "s"})
	var refused *client.RefusedError
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.Nobody)
	require.EqualValues(t, 1, calls.Load())
}

func TestFilesThatCannotBeReadAreNotTheServersFault(t *testing.T) {
	t.Parallel()
	c, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{}`)
	})
	damaged := errors.New("a file of the store is damaged")
	for _, archive := range []func() (io.Reader, error){
		func() (io.Reader, error) { return nil, damaged },
		func() (io.Reader, error) {
			return io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), iotest.ErrReader(damaged)), nil
		},
	} {
		opened := 0
		_, err := client.Upload(t.Context(), c, httpapi.UploadWorkspace, httpapi.UploadInput{Team: "web"}, func() (io.Reader, error) {
			opened++
			return archive()
		})
		require.Equal(t, damaged, err)
		require.Equal(t, 1, opened, "what cannot be sent is not sent again")
	}
}

func TestAResultThatCannotBeReadSaysWhy(t *testing.T) {
	t.Parallel()
	into, err := store.Create(t.TempDir(), store.Options{Clock: time.Now})
	require.NoError(t, err)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write([]byte(strings.Repeat("no archive ", 1000)))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	result := func(answer http.HandlerFunc) error {
		c, _ := answering(t, answer)
		err := client.Download(t.Context(), c, httpapi.BundleSession, control.BundleInput{Session: "s"}, func(r io.Reader) error {
			_, err := control.ReadBundle(context.WithoutCancel(t.Context()), r, into)
			return err
		})
		require.Error(t, err)
		return err
	}
	require.False(t, client.Away(result(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(packed.Bytes()) })))
	require.True(t, client.Away(result(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(packed.Bytes()[:packed.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})))
}
