// Package s3test starts S3 servers of different make, built from the module .ci/s3.
package s3test

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/proctest"
)

// Names are those of the servers.
var Names = []string{"gofakes3", "versitygw"}

// Environment has the credentials for every server.
var Environment = []string{
	"AWS_ACCESS_KEY_ID=an-access-key", "AWS_SECRET_ACCESS_KEY=a-secret-key", "AWS_EC2_METADATA_DISABLED=true",
}

const bucket = "maestro"

// Server is an S3 server with a bucket.
type Server struct {
	// Address is its host and port.
	Address string
	t       testing.TB
	command []string
	process *exec.Cmd
}

// Build builds a server, and returns the path of the program.
func Build(t testing.TB, name string) string {
	t.Helper()
	root, err := filepath.Abs("../../..") // of the package that is tested, as far below the root as this one
	require.NoError(t, err)
	program := filepath.Join(root, "bin", "s3", name)
	pkg := map[string]string{
		"gofakes3": "github.com/johannesboyne/gofakes3/cmd/gofakes3", "versitygw": "github.com/versity/versitygw/cmd/versitygw",
	}[name]
	build := exec.Command("go", "build", "-o", program, pkg)
	build.Dir = filepath.Join(root, ".ci", "s3")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return program
}

// Start builds a server and starts it at an address, until the test ends.
func Start(t testing.TB, name, address string) *Server {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, bucket), 0o700))
	args := map[string][]string{
		"gofakes3":  {"-host", address, "-backend", "bolt", "-bolt.db", dir + "/db", "-initialbucket", bucket},
		"versitygw": {"--quiet", "--port", address, "posix", dir},
	}[name]
	s := &Server{t: t, Address: address, command: append([]string{Build(t, name)}, args...)}
	s.Resume()
	t.Cleanup(s.Kill)
	return s
}

// Kill kills the server. It does nothing if the server has ended.
func (s *Server) Kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

// Resume starts the server again, and waits until it answers.
func (s *Server) Resume() {
	s.t.Helper()
	output := &proctest.Output{}
	s.process = exec.Command(s.command[0], s.command[1:]...)
	s.process.Env = []string{"ROOT_ACCESS_KEY=an-access-key", "ROOT_SECRET_KEY=a-secret-key"}
	s.process.Stdout, s.process.Stderr = output, output
	require.NoError(s.t, s.process.Start())
	require.Eventually(s.t, func() bool {
		answer, err := http.Get("http://" + s.Address)
		return err == nil && answer.Body.Close() == nil
	}, time.Minute, 100*time.Millisecond, "%s", output)
}

// URL is the address of content of its own at the server, or at a proxy of it.
func URL(address, prefix string) string {
	return "s3://" + bucket + "/" + prefix + "?" + url.Values{
		"endpoint": {"http://" + address}, "use_path_style": {"true"}, "region": {"us-east-1"},
	}.Encode()
}
