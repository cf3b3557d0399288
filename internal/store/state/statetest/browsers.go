package statetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/store/state"
)

// linksAreUsedOnce has many use one link at once, and one a link that has expired.
func linksAreUsedOnce(t *testing.T, b *bench) {
	made := state.Link{Hash: "h1", ID: "1", Owner: "ann"}
	require.NoError(t, b.AddLink(t.Context(), made, time.Hour))
	var used atomic.Int64
	atOnce(12, func(int) {
		l, err := b.UseLink(t.Context(), "h1")
		if err == nil {
			used.Add(1)
			assert.Equal(t, made, l)
		} else {
			assert.ErrorIs(t, err, state.ErrNotFound)
		}
	})
	require.EqualValues(t, 1, used.Load())
	require.NoError(t, b.AddLink(t.Context(), state.Link{Hash: "h2", ID: "2", Owner: "ann"}, time.Microsecond))
	b.clock.Pass(time.Microsecond)
	_, err := b.UseLink(t.Context(), "h2")
	require.ErrorIs(t, err, state.ErrNotFound)
	_, err = b.UseLink(t.Context(), "h3")
	require.ErrorIs(t, err, state.ErrNotFound)
}

// browsersAreSignedOut looks for each way in which a browser is no longer signed in.
func browsersAreSignedOut(t *testing.T, b *bench) {
	add := func(hash, old string, lifetime time.Duration, most int) {
		t.Helper()
		who := state.Browser{Hash: hash, Name: "ann", Via: "oidc", Groups: []string{"leads"}, PersonID: "a1"}
		require.NoError(t, b.AddBrowser(t.Context(), who, "", old, lifetime, time.Hour, most))
		b.clock.Pass(time.Microsecond)
	}
	use := func(hash string, idle time.Duration) (state.Browser, error) {
		return b.UseBrowser(t.Context(), hash, idle, 0)
	}
	is := func(hash string, signedIn bool) {
		t.Helper()
		_, err := use(hash, time.Hour)
		require.Equal(t, !signedIn, errors.Is(err, state.ErrNotFound), "%s: %v", hash, err)
	}
	add("1", "", time.Hour, 100)
	first, err := use("1", time.Hour)
	require.NoError(t, err)
	require.Equal(t, state.Browser{
		Hash: "1", Name: "ann", Via: "oidc", Groups: []string{"leads"}, PersonID: "a1",
		CreatedAt: first.CreatedAt, SeenAt: first.CreatedAt, ExpiresAt: first.CreatedAt.Add(time.Hour),
	}, first)
	again, err := use("1", time.Hour)
	require.NoError(t, err)
	require.True(t, again.SeenAt.After(first.SeenAt), "its use was noted")
	_, err = use("1", 0)
	require.ErrorIs(t, err, state.ErrNotFound, "it was idle")

	add("2", "1", time.Hour, 100)
	is("1", false)
	is("2", true)
	require.NoError(t, b.RemoveBrowser(t.Context(), "2"))
	is("2", false)
	add("3", "", time.Microsecond, 100)
	is("3", false)
	for i := range 4 {
		add(fmt.Sprint("of many ", i), "", time.Hour, 3)
	}
	for i := range 4 {
		is(fmt.Sprint("of many ", i), i > 0)
	}
}

// serversRun announces servers on two hosts.
func serversRun(t *testing.T, b *bench) {
	announce := func(address, host string, public bool) {
		t.Helper()
		require.NoError(t, b.AnnounceServer(t.Context(), address, host, public, time.Hour))
		b.clock.Pass(time.Microsecond)
	}
	leads := func(host string, lasts time.Duration, want string) {
		t.Helper()
		got, err := b.Server(t.Context(), host, lasts)
		require.Equal(t, want == "", errors.Is(err, state.ErrNotFound), "%v", err)
		require.Equal(t, want, got)
	}
	leads("", time.Hour, "")
	announce("http://first", "desk", false)
	announce("http://second", "desk", false)
	announce("http://first", "desk", false)
	leads("", time.Hour, "http://first")
	announce("http://public", "other", true)
	leads("", time.Hour, "http://public")
	leads("desk", time.Hour, "http://first")
	leads("elsewhere", time.Hour, "")
	leads("", 0, "")
	require.NoError(t, b.WithdrawServer(t.Context(), "http://public"))
	leads("", time.Hour, "http://first")
}
