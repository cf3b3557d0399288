package simulator

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	putBack = flag.Bool("simulate.faults", false, "put faults back that were mended, one at a time, and look whether a seed "+
		"finds them")
	putBackOnly = flag.String("simulate.fault", "", "put back only the faults whose name contains this")
)

// mendedFault is a fault that was fixed, as the change of the source that puts it back.
type mendedFault struct {
	Name string `json:"name"`
	What string `json:"what"`
	// Plans is the profile whose plans look for it; empty: all plans do.
	Plans string `json:"plans"`
	Edits []struct {
		File string `json:"file"`
		Old  string `json:"old"`
		New  string `json:"new"`
	} `json:"edits"`
}

// TestFaultsAreFound puts each fault of testdata/faults.json back, builds this package
// with it, and prints how many seeds it takes to find it. The source is not touched.
func TestFaultsAreFound(t *testing.T) {
	data, err := os.ReadFile("testdata/faults.json")
	require.NoError(t, err)
	var faults []mendedFault
	require.NoError(t, json.Unmarshal(data, &faults))
	for _, f := range faults {
		overlay := f.overlay(t) // each has to apply, whether or not it is looked for
		if !*putBack || !strings.Contains(f.Name, *putBackOnly) {
			continue
		}
		found := find(t, overlay, f.Plans)
		fmt.Printf("| %s | %s | %s | %s |\n", f.Name, f.What, cmp.Or(f.Plans, "all"), found)
		if !strings.HasPrefix(found, "found") {
			t.Errorf("%s was not found", f.Name)
		}
	}
}

// overlay writes the changed files, and says which they stand for.
func (f mendedFault) overlay(t *testing.T) string {
	dir := t.TempDir()
	replace := map[string]string{}
	for i, e := range f.Edits {
		path, err := filepath.Abs(filepath.Join("..", "..", "..", e.File))
		require.NoError(t, err)
		from := path
		if changed, ok := replace[path]; ok {
			from = changed
		}
		source, err := os.ReadFile(from)
		require.NoError(t, err)
		if n := strings.Count(string(source), e.Old); n != 1 {
			t.Errorf("%s: %q occurs %d times in %s; bring testdata/faults.json up to date", f.Name, e.Old, n, e.File)
		}
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(source), e.Old, e.New, 1)), 0o600))
		replace[path] = changed
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	path := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// find runs seeds with a fault until one fails.
func find(t *testing.T, overlay, profile string) string {
	program := filepath.Join(t.TempDir(), "simulator.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", program,
		".").CombinedOutput(); err != nil {
		return fmt.Sprintf("does not build: %s", out)
	}
	n := *seeds
	if n == "" {
		n = "500"
	}
	out, _ := exec.CommandContext(t.Context(), program, "-test.run", "^TestSimulate$", "-simulate.count", "-simulate.seeds", n,
		"-simulate.plans", profile).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "found") {
			return strings.TrimSpace(line)
		}
	}
	return "not found: " + strings.TrimSpace(string(out))
}
