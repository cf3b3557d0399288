package storagetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/storage"
)

// times: ModTime uses the storage's own clock.
func times(t *testing.T, open Opener) {
	s := open()
	_, err := s.ModTime("a/doc")
	require.ErrorIs(t, err, storage.ErrNotFound)
	write := func(key string, write func(version storage.Version) error) {
		_, version, _ := s.Read(key)
		before, err := open().Clock()
		require.NoError(t, err)
		require.NoError(t, write(version))
		at, err := open().ModTime(key)
		require.NoError(t, err)
		after, err := s.Clock()
		require.NoError(t, err)
		require.False(t, at.Before(before) || at.After(after), "%s is between %s and %s", at, before, after)
	}
	for range 3 {
		for _, d := range []storage.Durability{storage.Durable, storage.UntilPowerLoss} {
			write("a/doc", func(version storage.Version) error {
				_, err := s.Write("a/doc", []byte(version), version, d)
				return err
			})
		}
		write("a/locked", func(version storage.Version) error {
			l, err := s.Lock(t.Context(), "a/locked")
			require.NoError(t, err)
			_, err = l.Write("a/locked", []byte(version), version, storage.UntilPowerLoss)
			require.NoError(t, l.Close())
			return err
		})
	}
	require.NoError(t, s.KeepReserve())
}

// stages: content of a stage is not visible before it is published, and then all at once.
func stages(t *testing.T, open Opener, damage Damage) {
	s := open()
	shared, large, loose := []byte("shared"), make([]byte, 3<<20), []byte("loose")
	_, err := s.PutBlob(digestOf(shared), shared, storage.Durable)
	require.NoError(t, err)
	damage(t, digestOf(shared), []byte("damaged"))

	stage, err := s.Stage()
	require.NoError(t, err)
	for _, key := range []string{"a/b/doc", "a/b/c/doc", "a/other"} {
		_, err := stage.Write(key, []byte(key), "", storage.Durable)
		require.NoError(t, err)
	}
	for _, content := range [][]byte{shared, loose} {
		_, err = stage.PutBlob(digestOf(content), content, storage.Durable)
		require.NoError(t, err)
	}
	putTogether(t, stage, append(manyBlobs(), large))

	names, err := open().List("a")
	require.NoError(t, err)
	require.Empty(t, names)
	require.Equal(t, []spec.Digest{digestOf(shared)}, listed(t, s))
	require.ErrorIs(t, stage.Publish(t.Context(), "../a", nil), storage.ErrKey)
	require.ErrorIs(t, stage.Publish(t.Context(), "a/b", []spec.Digest{".."}), storage.ErrKey)

	blobs := []spec.Digest{digestOf(shared), digestOf(large)}
	for _, content := range manyBlobs()[1000:] {
		blobs = append(blobs, digestOf(content))
	}
	slices.Sort(blobs)
	blobs = slices.Compact(blobs)
	seen := watchKey(t, open(), "a/b")
	require.NoError(t, stage.Publish(t.Context(), "a/b", blobs))
	require.Equal(t, "[c/ doc]", <-seen, "first seen")
	for key, want := range map[string]string{"a/b/doc": "a/b/doc", "a/b/c/doc": "a/b/c/doc"} {
		data, _, err := open().Read(key)
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	require.Equal(t, shared, contentOf(t, open(), digestOf(shared)), "it was damaged")
	require.Equal(t, large, contentOf(t, open(), digestOf(large)))
	for _, content := range manyBlobs()[1000:] {
		require.True(t, bytes.Equal(content, contentOf(t, s, digestOf(content))))
	}
	require.Equal(t, blobs, slices.Sorted(slices.Values(listed(t, s))))
	names, err = open().List("a")
	require.NoError(t, err)
	require.Equal(t, []string{"b/"}, names, "nothing else was published")
	require.NoError(t, stage.Close())

	late, err := open().Stage()
	require.NoError(t, err)
	_, err = late.Write("a/b/late", nil, "", storage.UntilPowerLoss)
	require.NoError(t, err)
	require.ErrorIs(t, late.Publish(t.Context(), "a/b", nil), storage.ErrConflict)
	require.NoError(t, late.Close())
	names, err = s.List("a/b")
	require.NoError(t, err)
	require.Equal(t, []string{"c/", "doc"}, names)
}

// stagesOverNothing: removed content is not a conflict.
func stagesOverNothing(t *testing.T, open Opener, _ Damage) {
	s := open()
	version, err := s.Write("e/gone", nil, "", storage.UntilPowerLoss)
	require.NoError(t, err)
	require.NoError(t, s.Delete("e/gone", version))
	stage, err := open().Stage()
	require.NoError(t, err)
	_, err = stage.Write("e/doc", nil, "", storage.UntilPowerLoss)
	require.NoError(t, err)
	require.NoError(t, stage.Publish(t.Context(), "e", nil), "nothing is there any more")
	require.NoError(t, stage.Close())
}

// watchKey returns a channel with the first name that appears below a key.
func watchKey(t *testing.T, s storage.Storage, key string) <-chan string {
	t.Helper()
	seen := make(chan string, 1)
	go func() {
		for {
			names, err := s.List(key)
			if err != nil || len(names) > 0 {
				seen <- fmt.Sprint(append(names, errText(err)...))
				return
			}
		}
	}()
	return seen
}

func errText(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// discarded: a closed stage leaves nothing.
func discarded(t *testing.T, open Opener, _ Damage) {
	s := open()
	stage, err := s.Stage()
	require.NoError(t, err)
	_, err = stage.Write("a/doc", nil, "", storage.UntilPowerLoss)
	require.NoError(t, err)
	putTogether(t, stage, manyBlobs())
	require.NoError(t, stage.Close())
	names, err := open().List("a")
	require.NoError(t, err)
	require.Empty(t, names)
	require.Empty(t, listed(t, s))
}
