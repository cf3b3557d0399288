package githubtest_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/githubtest"
)

// backend serves the repositories below a directory with git's own program, to one user.
func backend(t *testing.T, dir string) http.Handler {
	t.Helper()
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "git" || password != "inner" {
			http.Error(w, "wrong user", http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body) // CGI programs want its length
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		(&cgi.Handler{Path: git, Args: []string{"http-backend"}, Dir: dir, Stderr: io.Discard, Env: []string{
			"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=git", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		}}).ServeHTTP(w, r)
	})
}

// TestAPushIsSeenAndSigned pushes to a pull request, and reads the webhooks about it.
func TestAPushIsSeenAndSigned(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	git := func(dir string, args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
			"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org",
		}
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	bare, work := filepath.Join(root, "acme", "shop.git"), t.TempDir()
	require.NoError(t, os.MkdirAll(bare, 0o700))
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main"}, {"config", "http.receivepack", "true"}} {
		out, err := git(bare, args...)
		require.NoError(t, err, out)
	}
	s := githubtest.New(t, githubtest.Options{
		Git: backend(t, root), GitUser: "git", GitPassword: "inner",
		Dir: func(name string) string { return filepath.Join(root, name+".git") },
	})
	repo := s.Create("acme/shop")
	remote := strings.Replace(s.URL, "://", "://x-access-token:"+githubtest.Token+"@", 1) + "/acme/shop.git"
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"commit", "-q", "--allow-empty", "-m", "1"},
		{"push", "-q", remote, "main"},
		{"commit", "-q", "--allow-empty", "-m", "2"},
		{"push", "-q", remote, "main:work"},
		{"commit", "-q", "--allow-empty", "-m", "3"},
	} {
		out, err := git(work, args...)
		require.NoError(t, err, out)
	}
	out, err := git(work, "push", "-q", strings.Replace(remote, githubtest.Token, "wrong", 1), "main:work")
	require.Error(t, err, out)

	var mu sync.Mutex
	var got []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte("key"))
		_, _ = mac.Write(body)
		if r.Header.Get("X-Hub-Signature-256") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
			w.WriteHeader(http.StatusForbidden)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("X-GitHub-Event"))
	}))
	t.Cleanup(receiver.Close)
	s.SetHook(githubtest.Hook{URL: receiver.URL, Secret: "key", Held: true})
	number := repo.Open("ben", "work", "main", "Shout")
	before := repo.Head("work")
	out, err = git(work, "push", "-q", remote, "main:work")
	require.NoError(t, err, out)
	require.NotEqual(t, before, repo.Head("work"))
	repo.Comment(number, "ben", "OWNER", "@maestro go on")

	held := s.Deliveries()
	require.Len(t, held, 3)
	require.Equal(t, []string{"opened", "synchronize", "created"}, []string{held[0].Action, held[1].Action, held[2].Action})
	var pushed struct {
		PullRequest struct{ Head struct{ SHA string } } `json:"pull_request"`
	}
	require.NoError(t, json.Unmarshal(held[1].Body, &pushed))
	require.Equal(t, repo.Head("work"), pushed.PullRequest.Head.SHA)
	require.Empty(t, got)
	for _, d := range []githubtest.Delivery{held[2], held[1], held[1]} { // reordered, doubled, and one lost
		status, err := s.Send(d)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
	}
	require.Equal(t, []string{"issue_comment", "pull_request", "pull_request"}, got)
}
