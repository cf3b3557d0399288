package proctest

import (
	"os"
	"path/filepath"
	"testing"
)

// ShareGoCache links the cache go-build of a store to one that is kept between runs: a cold one
// costs half a minute. It is not the cache of the user who runs the tests, because agents in
// rooms may have another user.
func ShareGoCache(t *testing.T, state string) {
	t.Helper()
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache, caches := filepath.Join(user, "maestro-test-go-build"), filepath.Join(state, "caches")
	for _, dir := range []string{cache, caches} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(cache, 0o777); err != nil { //nolint:gosec // for any user of agents; its parent is private
		t.Fatal(err)
	}
	if err := os.Symlink(cache, filepath.Join(caches, "go-build")); err != nil {
		t.Fatal(err)
	}
}
