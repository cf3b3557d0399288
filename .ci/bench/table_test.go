package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFigures(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 2.0, median([]float64{3, 1, 2}), 0)
	require.InDelta(t, 2.5, median([]float64{4, 1, 2, 3}), 0)
	require.Equal(t, 99, quantile([]int{1, 2, 99}, 0.99))
	require.Equal(t, "0.12 1.50 12.3 123", number(0.123)+" "+number(1.5)+" "+number(12.34)+" "+number(123.4))
}

// What follows the last commit, and what is left of an older log, does not count.
func TestTheLogsLastCommitSaysHowLargeTheDatabaseIs(t *testing.T) {
	t.Parallel()
	const pageSize = 512
	log := make([]byte, 32)
	binary.BigEndian.PutUint32(log[8:], pageSize)
	copy(log[16:], "newsalts")
	for _, f := range []struct {
		pages uint32
		salt  string
	}{{0, "newsalts"}, {7, "newsalts"}, {9, "newsalts"}, {0, "newsalts"}, {50, "oldsalts"}} {
		frame := make([]byte, 24+pageSize)
		binary.BigEndian.PutUint32(frame[4:], f.pages)
		copy(frame[8:], f.salt)
		log = slices.Concat(log, frame)
	}
	path := filepath.Join(t.TempDir(), "db-wal")
	require.NoError(t, os.WriteFile(path, log, 0o600))
	pages, size := lastCommit(path)
	require.EqualValues(t, 9, pages)
	require.EqualValues(t, pageSize, size)
	pages, _ = lastCommit(path + "-none")
	require.Zero(t, pages)
}
