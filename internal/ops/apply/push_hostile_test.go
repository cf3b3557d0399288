package apply_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
	"github.com/maestro-hive/maestro/internal/testkit/gittest"
)

func TestARefusedPushSaysWhy(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	changes := map[string]string{"b/c": "d\n"}
	refused := func(want failures.Category, texts ...string) {
		t.Helper()
		_, err := d.try(changes)
		f := failureOf(t, err)
		require.Equal(t, want, f.Category, err)
		for _, text := range texts {
			require.Contains(t, f.Message, text)
		}
		require.NotContains(t, f.Message, d.target.Password)
		require.NotContains(t, f.Message, "\x1b")
		require.NotContains(t, f.Message, "\n")
	}
	d.host.Decline(repository, d.target.Branch, "error: GH006: Protected\x1b[31m branch\nYou said "+gittest.Password)
	refused(failures.InvalidRequest, "error: GH006: Protected branch You said ***")
	d.host.Decline(repository, "", "")

	no := faulttest.Fault{Body: "no", Header: map[string]string{"Content-Type": "text/plain"}}
	no.If = func(r faulttest.Request) bool { return r.Query.Get("service") == "git-receive-pack" }
	no.Status = http.StatusForbidden
	d.host.Fail(no)
	refused(failures.Auth, "push to branch maestro/s", ": no")
	no.Status = http.StatusNotFound
	d.host.Fail(no)
	refused(failures.InvalidRequest, ": no")
	d.host.Fail(faulttest.Fault{Status: http.StatusMovedPermanently})
	refused(failures.InvalidRequest, "301")
	d.host.Mend()

	for name, change := range map[string]func(t *apply.PushTarget){
		"has to be like https://": func(t *apply.PushTarget) { t.URL = "http://example.org/a.git" },
		"has to be like https:":   func(t *apply.PushTarget) { t.URL = "https://u:p@example.org/a.git" },
		"has to be like http":     func(t *apply.PushTarget) { t.URL = "ext::sh -c true" },
		"has to be like":          func(t *apply.PushTarget) { t.URL = "file:///etc" },
		`"-x" is not`:             func(t *apply.PushTarget) { t.Branch = "-x" },
		"invalid refspec":         func(t *apply.PushTarget) { t.Branch = "a..b" },
		"no branch a..b":          func(t *apply.PushTarget) { t.Base = "a..b" },
		"no branch *":             func(t *apply.PushTarget) { t.Base = "*" },
		"--all is not":            func(t *apply.PushTarget) { t.StartedOn = "--all" },
		"--output=x is not":       func(t *apply.PushTarget) { t.Previous = "--output=x" },
		"branch other":            func(t *apply.PushTarget) { t.Base = "other" },
	} {
		old := d.target
		change(&d.target)
		refused(failures.InvalidRequest, name)
		d.target = old
	}
	d.target.Password = "wrong-password"
	refused(failures.Auth, "Username")
	d.target.Password = ""
	_, err := d.try(changes)
	require.Equal(t, failures.Auth, failureOf(t, err).Category)
	require.Empty(t, d.host.Branch(repository, d.target.Branch))
}

func TestAHostileRepositoryRunsNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	evil := strings.Repeat("ab", 20)
	d.target.StartedOn = d.host.Commit(repository, "main", map[string]string{
		"sub": gittest.Submodule(evil), "dir": gittest.Link("b"), ".gitattributes": "* filter=evil merge=evil diff=evil\n",
		".gitmodules": "[submodule \"sub\"]\n\tpath = sub\n\turl = ext::sh -c false\n",
		".lfsconfig":  "[lfs]\n\turl = http://127.0.0.1:1\n",
	}, "Evil")
	before := with(began, map[string]string{"dir": gittest.Link("b"), ".gitattributes": "* filter=evil merge=evil diff=evil\n"})
	push := func(changes map[string]string) (apply.Pushed, error) {
		return apply.Push(t.Context(), d.work(before, with(before, changes)), d.target)
	}
	_, err := push(map[string]string{"sub/file": "x\n"})
	require.Equal(t, failures.InvalidRequest, failureOf(t, err).Category)
	require.ErrorContains(t, err, "sub is a submodule")
	_, err = push(map[string]string{"x/.gitmodules": gittest.Link("../b/c")})
	require.Equal(t, failures.InvalidRequest, failureOf(t, err).Category, err)
	require.ErrorContains(t, err, ".gitmodules", "git takes no link with this name")

	out, err := push(map[string]string{
		"dir": gittest.Removed, "dir/file": "x\n", "large": strings.Repeat("0123456789abcdef", 2<<20),
	})
	require.NoError(t, err)
	require.Equal(t, "x\n", d.files(out.Head)["dir/file"])
	require.Equal(t, gittest.Submodule(evil), d.files(out.Head)["sub"])
	require.NotContains(t, d.files(out.Head), "b/file")
}

func TestADamagedCloneIsMadeAnew(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.push(map[string]string{"b/c": "d\n"})
	for name, damage := range map[string]func(){
		"lock":  func() { write(t, filepath.Join(d.target.Dir, "refs/maestro/base.lock"), "") },
		"empty": func() { write(t, filepath.Join(d.target.Dir, "HEAD"), "") },
		"packs": func() {
			require.NoError(t, filepath.WalkDir(filepath.Join(d.target.Dir, "objects"), func(path string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					err = errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("damaged"), 0o600))
				}
				return err
			}))
		},
	} {
		damage()
		d.host.Commit(repository, "main", map[string]string{name: name}, name)
		d.push(map[string]string{"b/c": name})
		require.Equal(t, name, d.files(d.target.Branch)["b/c"])
	}
}

func TestPushesOfOneCloneDoNotMeet(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.host.Git(repository, "config", "uploadpack.allowFilter", "false") // the clone has all files then
	done := make(chan error)
	for _, branch := range []string{"x/a", "x/b", "x/c"} {
		target, work := d.target, d.work(began, with(began, map[string]string{"b/c": branch}))
		target.Branch = branch
		go func() {
			_, err := apply.Push(t.Context(), work, target)
			done <- err
		}()
	}
	for range 3 {
		require.NoError(t, <-done)
	}
	for _, branch := range []string{"x/a", "x/b", "x/c"} {
		require.Equal(t, branch, d.files(branch)["b/c"])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := apply.Push(ctx, d.work(began, began), d.target)
	require.ErrorIs(t, err, context.Canceled)
}

// TestCredentialsAreInNoArgumentAndNoFile looks at all processes of the machine while the server answers.
func TestCredentialsAreInNoArgumentAndNoFile(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("the arguments of processes are in /proc on Linux only")
	}
	d := newDesk(t)
	d.target.User, d.target.Password = "a-user", "a-password-of-this-test"
	d.host.Accept(d.target.User, d.target.Password)
	trace := filepath.Join(t.TempDir(), "trace")
	d.target.Environ = append(os.Environ(), "GIT_TRACE_CURL="+trace, "GIT_DIR=/nowhere", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=http.proxy", "GIT_CONFIG_VALUE_0=http://127.0.0.1:1")
	var seen strings.Builder
	d.host.Fail(faulttest.Fault{If: func(faulttest.Request) bool {
		processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range processes {
			arguments, _ := os.ReadFile(file) // it may have ended
			seen.WriteString(strings.ReplaceAll(string(arguments), "\x00", " ") + "\n")
		}
		return false
	}})
	d.push(map[string]string{"b/c": "d\n"})
	require.Contains(t, seen.String(), "push --porcelain")
	require.Contains(t, seen.String(), d.target.URL, "a program of git's has the address")
	basic := base64.StdEncoding.EncodeToString([]byte(d.target.User + ":" + d.target.Password))
	for _, secret := range []string{d.target.Password, basic} {
		require.NotContains(t, seen.String(), secret)
		require.NoError(t, filepath.WalkDir(d.target.Dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			require.NotContains(t, string(data), secret, path)
			return err
		}))
	}
	require.NoFileExists(t, trace)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
}
