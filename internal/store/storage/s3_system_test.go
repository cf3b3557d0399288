//go:build system

package storage_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/store/storage"
	"github.com/maestro-hive/maestro/internal/store/storage/storagetest"
	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// servers are S3 servers of different make, built from the module .ci/s3: their packages, and their arguments to have a bucket
// in a directory.
var servers = map[string]func(address, dir string) (pkg string, args []string){
	"gofakes3": func(address, dir string) (string, []string) {
		return "github.com/johannesboyne/gofakes3/cmd/gofakes3", []string{
			"-host", address, "-backend", "bolt", "-bolt.db", dir + "/db", "-initialbucket", bucketName,
		}
	},
	"versitygw": func(address, dir string) (string, []string) {
		_ = os.Mkdir(filepath.Join(dir, bucketName), 0o700)
		return "github.com/versity/versitygw/cmd/versitygw", []string{"--quiet", "--port", address, "posix", dir}
	},
}

const (
	bucketName = "maestro"
	access     = "an-access-key"
	secret     = "a-secret-key"
)

func init() { //nolint:gochecknoinits // tests that run in parallel cannot set variables
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		_ = os.Setenv(name, value)
	}
}

// startS3 starts a server with a bucket, and returns its address.
func startS3(t *testing.T, name string) string {
	t.Helper()
	dir, address := t.TempDir(), "127.0.0.1:"+proctest.FreePort(t)
	pkg, args := servers[name](address, dir)
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	program := filepath.Join(root, "bin", "s3", name)
	build := exec.Command("go", "build", "-o", program, pkg)
	build.Dir = filepath.Join(root, ".ci", "s3")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+access, "ROOT_SECRET_KEY="+secret)
	output := &proctest.Output{}
	cmd.Stdout, cmd.Stderr = output, output
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		answer, err := http.Get("http://" + address)
		return err == nil && answer.Body.Close() == nil
	}, time.Minute, 100*time.Millisecond, "%s", output)
	return address
}

// s3Address is the address of content of its own, by way of a server or a proxy.
func s3Address(server, prefix string) string {
	return "s3://" + bucketName + "/" + prefix + "?" + url.Values{
		"endpoint": {"http://" + server}, "use_path_style": {"true"}, "region": {"us-east-1"},
	}.Encode()
}

// TestS3 runs the suite on servers of different make, behind a proxy that loses, cuts, refuses and repeats requests.
func TestS3(t *testing.T) {
	t.Parallel()
	for name := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := startS3(t, name)
			var n atomic.Int64
			t.Run("group", func(t *testing.T) { // ends before the server
				for _, percent := range []int64{0, 20} {
					proxy := storagetest.NewLossy(t, address)
					proxy.Percent.Store(percent)
					open := func(t *testing.T, clock *storagetest.Clock) storagetest.Host {
						prefix := "suite/" + strconv.FormatInt(n.Add(1), 10)
						return storagetest.Hosts(t, clock, s3Address(proxy.Listener.Addr().String(), prefix), 0)
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
	host := storagetest.Hosts(t, &storagetest.Clock{}, s3Address(proxy.Listener.Addr().String(), "few"), 0)
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
