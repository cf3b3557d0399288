//go:build system

package storage_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/storage"
	"github.com/maestro-hive/maestro/internal/store/storage/storagetest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
	"github.com/maestro-hive/maestro/internal/testkit/s3test"
)

func init() { //nolint:gochecknoinits // tests that run in parallel cannot set variables
	for _, variable := range s3test.Environment {
		name, value, _ := strings.Cut(variable, "=")
		_ = os.Setenv(name, value)
	}
}

// TestS3 runs the suite on servers of different make, behind a proxy that loses, cuts, refuses and repeats requests.
func TestS3(t *testing.T) {
	t.Parallel()
	for _, name := range s3test.Names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := s3test.Start(t, name, "127.0.0.1:"+proctest.FreePort(t)).Address
			var n atomic.Int64
			t.Run("group", func(t *testing.T) { // ends before the server
				for _, percent := range []int64{0, 20} {
					proxy := storagetest.NewLossy(t, address)
					proxy.Percent.Store(percent)
					open := func(t *testing.T, clock *storagetest.Clock) storagetest.Host {
						prefix := "suite/" + strconv.FormatInt(n.Add(1), 10)
						return storagetest.Hosts(t, clock, s3test.URL(proxy.Listener.Addr().String(), prefix), 0)
					}
					t.Run(fmt.Sprint(percent, " percent of the requests fail"), func(t *testing.T) { storagetest.Run(t, open) })
					t.Run(fmt.Sprint("races, ", percent, " percent fail"), func(t *testing.T) {
						clock := &storagetest.Clock{}
						storagetest.Race(t, open(t, clock), clock)
					})
				}
			})
			t.Run("few requests", func(t *testing.T) { fewRequests(t, address) })
		})
	}
}

// fewRequests stores a tree of many small files on one host, and brings it to another one.
func fewRequests(t *testing.T, address string) {
	const files, size = 20_000, 4000
	proxy := storagetest.NewLossy(t, address)
	host := storagetest.Hosts(t, &storagetest.Clock{}, s3test.URL(proxy.Listener.Addr().String(), "few"), 0)
	contents := make([][]byte, files)
	for i := range contents {
		contents[i] = storagetest.Random(size)
	}
	start := time.Now()
	digests, err := storagetest.Put(t.Context(), host(), contents...)
	require.NoError(t, err)
	put := proxy.Requests()
	t.Logf("put of %d files with %d MB: %v, %s", files, files*size/1_000_000, put, time.Since(start).Round(time.Millisecond))
	require.LessOrEqual(t, put[http.MethodPut], files*size>>23+3)
	require.LessOrEqual(t, put[http.MethodGet], 1)

	other := host()
	start = time.Now()
	require.NoError(t, other.Fetch(t.Context(), digests))
	fetched := proxy.Requests()
	t.Logf("fetch: %v, %s", fetched, time.Since(start).Round(time.Millisecond))
	require.LessOrEqual(t, fetched[http.MethodGet], files*size>>23+3)
	for i, digest := range digests {
		if i%20 > 0 {
			continue
		}
		read, err := storagetest.Read(t.Context(), other, digest)
		require.NoError(t, err)
		require.True(t, bytes.Equal(contents[i], read))
	}
	require.Empty(t, proxy.Requests(), "all is on this host")
	right := func(_ spec.Digest, _ int64, err error) error { return err }
	require.NoError(t, other.(*storage.Bucket).VerifyBlobs(t.Context(), digests, right))
}
