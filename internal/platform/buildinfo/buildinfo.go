// Package buildinfo says which build this program is, as the Go toolchain has
// recorded it.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Unversioned is the version of a build that knows none.
const Unversioned = "(devel)"

// Build describes a build, also in the document of `version -o json`.
type Build struct {
	// Version is the tag, or the pseudo-version of a commit without one.
	Version string `json:"version"`
	// Commit is the commit's full name; empty for a build that does not know it.
	Commit string `json:"commit"`
	// CommittedAt is the commit's time; nil for a build that does not know it.
	CommittedAt *time.Time `json:"committed_at"`
	// Modified: the source differs from the commit.
	Modified bool `json:"modified"`
	// Go is the toolchain's version, SDK that of Temporal's SDK; empty: unknown.
	Go  string `json:"go"`
	SDK string `json:"sdk"`
	// Platform is the operating system and architecture, like linux/amd64.
	Platform string `json:"platform"`
}

// shortCommit is how many characters of a commit name it well enough.
const shortCommit = 7

// sdkModule is Temporal's SDK.
const sdkModule = "go.temporal.io/sdk"

// This returns the running program's build.
func This() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return Of(info)
}

// Of reads what the toolchain has recorded.
func Of(info *debug.BuildInfo) Build {
	b := Build{Version: Unversioned, Go: info.GoVersion, Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
				b.CommittedAt = &at
			}
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	for _, d := range info.Deps {
		if d.Path == sdkModule {
			b.SDK = d.Version
		}
	}
	return b
}

// String is the version with the commit, like v1.2.3+abc1234, in one word. A
// pseudo-version has its commit already.
func (b Build) String() string {
	version, dirty := strings.CutSuffix(b.Version, "+dirty")
	commit := b.Commit[:min(shortCommit, len(b.Commit))]
	var more []string
	if commit != "" && !strings.Contains(version, commit) {
		more = append(more, commit)
	}
	if dirty || b.Modified {
		more = append(more, "dirty")
	}
	if len(more) == 0 {
		return version
	}
	return version + "+" + strings.Join(more, ".")
}

// Line is what a program says of its build, for people.
func (b Build) Line(program string) string {
	parts := []string{b.Go, b.Platform}
	if b.SDK != "" {
		parts = append(parts, "Temporal SDK "+b.SDK)
	}
	if b.Commit != "" {
		commit := "commit " + b.Commit
		if b.CommittedAt != nil {
			commit += " of " + b.CommittedAt.Format(time.RFC3339)
		}
		if b.Modified {
			commit += " and changes"
		}
		parts = append(parts, commit)
	}
	return fmt.Sprintf("%s %s (%s)", program, b.Version, strings.Join(parts, ", "))
}
