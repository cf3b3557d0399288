// Package storagetest tests implementations of [storage.Storage].
package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/storage"
)

// Opener opens the same storage each time, as another process would.
type Opener func() storage.Storage

// Run tests an implementation. empty makes an empty storage, and a function that damages its
// blobs.
func Run(t *testing.T, empty func(t *testing.T) (Opener, Damage)) {
	for name, test := range map[string]func(t *testing.T, open Opener, damage Damage){
		"blobs are written once":              blobs,
		"a blob can be streamed":              blobStreams,
		"many blobs can be put together":      batches,
		"many put the same blobs":             concurrentBlobs,
		"damaged blobs are repaired or moved": damagedBlobs,
		"sweeping excludes using":             sweptBlobs,
		"hostile digests are refused":         hostileDigests,
		"a stage is published at once":        stages,
		"a stage is published over nothing":   stagesOverNothing,
		"a stage can be discarded":            discarded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, damage := empty(t)
			test(t, open, damage)
		})
	}
	for name, test := range map[string]func(t *testing.T, open Opener){
		"documents have versions":           versions,
		"one of many writers wins":          onlyOneWins,
		"readers see whole documents":       wholeDocuments,
		"writes have a time":                times,
		"names are listed":                  listing,
		"what changed below is listed":      below,
		"hostile keys are refused":          hostileKeys,
		"sizes are bounded":                 bounds,
		"locks exclude":                     locks,
		"a lock's holder keeps to versions": lockedWrites,
		"holds exclude":                     holds,
		"damage is moved out of the way":    quarantine,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, _ := empty(t)
			test(t, open)
		})
	}
}

// versions: a document is written only if its version is the expected one.
func versions(t *testing.T, open Opener) {
	s := open()
	_, _, err := s.Read("a/b.json")
	require.ErrorIs(t, err, storage.ErrNotFound)
	_, err = s.Write("a/b.json", []byte("x"), "unknown", storage.Durable)
	require.ErrorIs(t, err, storage.ErrConflict, "there is none")
	for _, d := range []storage.Durability{storage.Durable, storage.UntilPowerLoss} {
		key := fmt.Sprintf("a/%t.json", d)
		first, err := s.Write(key, []byte("1"), "", d)
		require.NoError(t, err)
		_, err = s.Write(key, []byte("2"), "", d)
		require.ErrorIs(t, err, storage.ErrConflict, "there is one")
		second, err := open().Write(key, []byte("2"), first, d)
		require.NoError(t, err)
		_, err = s.Write(key, []byte("3"), first, d)
		require.ErrorIs(t, err, storage.ErrConflict, "it has changed")
		data, version, err := s.Read(key)
		require.NoError(t, err)
		require.Equal(t, "2", string(data))
		require.Equal(t, second, version)
		require.ErrorIs(t, s.Delete(key, first), storage.ErrConflict)
		require.NoError(t, s.Delete(key, second))
		require.ErrorIs(t, s.Delete(key, second), storage.ErrNotFound)
		_, err = s.Write(key, nil, "", d)
		require.NoError(t, err, "an empty document is one")
		data, version, err = s.Read(key)
		require.NoError(t, err)
		require.Empty(t, data)
		require.NotEmpty(t, version)
	}
}

// onlyOneWins: of several writers that have read the same version, exactly one succeeds.
func onlyOneWins(t *testing.T, open Opener) {
	const writers, each = 4, 10
	var all sync.WaitGroup
	failed := make([]error, writers)
	for i := range writers {
		all.Go(func() {
			s := open()
			for range each {
				failed[i] = errors.Join(failed[i], increment(s, "count"))
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(failed...))
	data, _, err := open().Read("count")
	require.NoError(t, err)
	require.Len(t, data, writers*each)
}

func increment(s storage.Storage, key string) error {
	for {
		data, version, err := s.Read(key)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if _, err = s.Write(key, append(data, 'x'), version, storage.UntilPowerLoss); !errors.Is(err, storage.ErrConflict) {
			return err
		}
	}
}

// wholeDocuments: a reader sees a complete document, the old or the new one.
func wholeDocuments(t *testing.T, open Opener) {
	s, reader := open(), open()
	one, two := bytes.Repeat([]byte("1"), 1<<16), bytes.Repeat([]byte("2"), 1<<15)
	version, err := s.Write("doc", one, "", storage.UntilPowerLoss)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 50 && err == nil; i++ {
			version, err = s.Write("doc", [][]byte{two, one}[i%2], version, storage.UntilPowerLoss)
		}
		done <- err
	}()
	for {
		data, _, err := reader.Read("doc")
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, one) || bytes.Equal(data, two))
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		default:
		}
	}
}

func listing(t *testing.T, open Opener) {
	s := open()
	names, err := s.List("nothing")
	require.NoError(t, err)
	require.Empty(t, names)
	for _, key := range []string{"top/b", "top/a.json", "top/c/d/e", "top/c/f", "topper"} {
		_, err := s.Write(key, []byte(key), "", storage.UntilPowerLoss)
		require.NoError(t, err)
	}
	names, err = open().List("top")
	require.NoError(t, err)
	require.Equal(t, []string{"a.json", "b", "c/"}, names)
}

// below: names that have others below them, with their times. The resolution of times differs
// between implementations, so a change is repeated until it is visible.
func below(t *testing.T, open Opener) {
	s := open()
	entries, err := s.Below("nothing")
	require.NoError(t, err)
	require.Empty(t, entries)
	version := storage.Version("")
	put := func() {
		version, err = open().Write("top/c/doc", []byte(version), version, storage.UntilPowerLoss)
		require.NoError(t, err)
	}
	put()
	_, err = s.Write("top/file", nil, "", storage.UntilPowerLoss)
	require.NoError(t, err)
	_, err = s.Write("top/d/e/doc", nil, "", storage.UntilPowerLoss)
	require.NoError(t, err)
	times := func() map[string]time.Time {
		out := map[string]time.Time{}
		entries, err := s.Below("top")
		require.NoError(t, err)
		for _, e := range entries {
			out[e.Name] = e.Modified
			same, err := s.ModTime("top/" + e.Name)
			require.NoError(t, err)
			require.Equal(t, e.Modified.UnixNano(), same.UnixNano())
		}
		return out
	}
	before := times()
	require.Len(t, before, 2)
	require.Eventually(t, func() bool { put(); return times()["c"].After(before["c"]) }, time.Minute, time.Millisecond)
	require.Equal(t, before["d"], times()["d"])
}

func hostileKeys(t *testing.T, open Opener) {
	s := open()
	for _, key := range []string{
		"", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "./a", "a//b", "a/", "a\x00b", `a\b`,
		strings.Repeat("x", 300), strings.Repeat("x/", 600) + "x",
	} {
		_, _, err := s.Read(key)
		require.ErrorIs(t, err, storage.ErrKey, "%.40q", key)
		_, err = s.Write(key, nil, "", storage.UntilPowerLoss)
		require.ErrorIs(t, err, storage.ErrKey, "%.40q", key)
		require.ErrorIs(t, s.Delete(key, ""), storage.ErrKey, "%.40q", key)
		_, err = s.List(key)
		require.ErrorIs(t, err, storage.ErrKey, "%.40q", key)
		_, err = s.ModTime(key)
		require.ErrorIs(t, err, storage.ErrKey, "%.40q", key)
		_, err = s.Below(key)
		require.ErrorIs(t, err, storage.ErrKey, "%.40q", key)
		_, err = s.Lock(t.Context(), key)
		require.ErrorIs(t, err, storage.ErrKey, "%.40q", key)
		_, _, err = s.Hold(key)
		require.ErrorIs(t, err, storage.ErrKey, "%.40q", key)
		_, err = s.Quarantine(key, "")
		require.ErrorIs(t, err, storage.ErrKey, "%.40q", key)
	}
}

func bounds(t *testing.T, open Opener) {
	_, err := open().Write("d", make([]byte, storage.MaxDocument+1), "", storage.UntilPowerLoss)
	require.ErrorIs(t, err, storage.ErrTooLarge)
}

// locks: a lock has one holder at a time. Locks of different documents are independent.
func locks(t *testing.T, open Opener) {
	held, err := open().Lock(t.Context(), "a/doc")
	require.NoError(t, err)
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = open().Lock(soon, "a/doc")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	other, err := open().Lock(t.Context(), "a/other")
	require.NoError(t, err)
	require.NoError(t, other.Close())
	require.NoError(t, held.Close())
	again, err := open().Lock(t.Context(), "a/doc")
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// holds: a hold has one holder at a time, and taking it does not wait.
func holds(t *testing.T, open Opener) {
	s := open()
	held, ok, err := s.Hold("a/work")
	require.NoError(t, err)
	require.True(t, ok)
	for _, other := range []storage.Storage{s, open()} {
		_, ok, err := other.Hold("a/work")
		require.NoError(t, err)
		require.False(t, ok)
	}
	free, ok, err := open().Hold("a/other")
	require.NoError(t, err)
	require.True(t, ok)
	free.Unlock()
	held.Unlock()
	held, ok, err = open().Hold("a/work")
	require.NoError(t, err)
	require.True(t, ok)
	held.Unlock()
}

// lockedWrites: a holder that has lost its lock does not overwrite newer content.
func lockedWrites(t *testing.T, open Opener) {
	s := open()
	for _, d := range []storage.Durability{storage.Durable, storage.UntilPowerLoss} {
		key := fmt.Sprintf("ledger-%t", d)
		held, err := s.Lock(t.Context(), key)
		require.NoError(t, err)
		version := storage.Version("")
		for i := range 5 {
			was := version
			version, err = held.Write(key, fmt.Appendf(nil, "%d", i), version, d)
			require.NoError(t, err)
			_, err = held.Write(key, []byte("late"), was, d)
			require.ErrorIs(t, err, storage.ErrConflict)
		}
		data, now, err := held.Read(key)
		require.NoError(t, err)
		require.Equal(t, "4", string(data))
		require.Equal(t, version, now)
		require.NoError(t, held.Close())
	}
}

// quarantine: a quarantined document is moved.
func quarantine(t *testing.T, open Opener) {
	s := open()
	version, err := s.Write("a/doc", []byte("damaged"), "", storage.UntilPowerLoss)
	require.NoError(t, err)
	_, err = s.Quarantine("a/doc", storage.VersionOf([]byte("replaced")))
	require.ErrorIs(t, err, storage.ErrConflict, "it is another document")
	moved, err := s.Quarantine("a/doc", version)
	require.NoError(t, err)
	_, _, err = s.Read("a/doc")
	require.ErrorIs(t, err, storage.ErrNotFound)
	data, _, err := s.Read(moved)
	require.NoError(t, err)
	require.Equal(t, "damaged", string(data))
}
