// Command release builds what is handed out of a version: for each platform an archive and a bill of materials, for Linux also
// a .deb, a .rpm and an image of containers, and beside them notes and checksums. Two builds of one commit are equal byte for
// byte: every file has the commit's time, and nothing names the machine.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := flag.String("root", ".", "the repository's directory")
	out := flag.String("out", "dist", "the directory to fill; what it has is removed")
	version := flag.String("version", "", "the version, like 1.2.3; by default that of the tag, or of the commit")
	targets := flag.String("targets", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "the platforms")
	flag.Parse()
	if err := run(ctx, *root, *out, *version, strings.Split(*targets, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one version.
type release struct {
	root, out string
	version   string
	// at is the time of the commit, in every file that is made.
	at time.Time
}

func run(ctx context.Context, root, out, version string, targets []string) (err error) {
	r := &release{out: out, version: version}
	if r.root, err = filepath.Abs(root); err != nil {
		return err
	}
	if err := r.readCommit(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	pages, err := r.pages()
	if err != nil {
		return err
	}
	for _, target := range targets {
		goos, goarch, ok := strings.Cut(target, "/")
		if !ok || goos != "linux" && goos != "darwin" {
			return fmt.Errorf("platform %q: give linux/ARCHITECTURE or darwin/ARCHITECTURE", target)
		}
		fmt.Println("building", target)
		if err := r.buildTarget(ctx, platform{goos, goarch}, pages); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
	}
	if err := r.writeNotes(); err != nil {
		return err
	}
	return r.writeSums()
}

// platform is a GOOS and a GOARCH.
type platform struct{ os, arch string }

// buildTarget makes everything for one platform.
func (r *release) buildTarget(ctx context.Context, to platform, pages []file) error {
	programs, err := r.compile(ctx, to)
	if err != nil {
		return err
	}
	shared, err := r.sharedFiles(to)
	if err != nil {
		return err
	}
	files := append(append(programs, shared...), pages...)
	outputs := []func(to platform, files []file) error{r.writeArchive, r.writeBill}
	if to.os == "linux" {
		outputs = append(outputs, r.writePackages, r.writeImage)
	}
	for _, write := range outputs {
		if err := write(to, files); err != nil {
			return err
		}
	}
	return nil
}

// readCommit finds the commit's time, and the version unless it is given.
func (r *release) readCommit(ctx context.Context) error {
	git := func(arguments ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, arguments...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	at, err := git("log", "-1", "--format=%ct %h")
	if err != nil {
		return fmt.Errorf("read the commit: %w", err)
	}
	seconds, short, _ := strings.Cut(at, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.at = time.Unix(unix, 0).UTC()
	if r.version == "" {
		tag, err := git("describe", "--tags", "--exact-match")
		if err != nil { // no tag: a snapshot, which sorts before the first release
			tag = fmt.Sprintf("0.0.0-%s.%s", r.at.Format("20060102150405"), short)
		}
		r.version = tag
	}
	r.version = strings.TrimPrefix(r.version, "v")
	return nil
}

// name is the name of a file of the release.
func (r *release) name(kind string, to platform, ending string) string {
	return filepath.Join(r.out, fmt.Sprintf("%s_%s_%s_%s%s", kind, r.version, to.os, to.arch, ending))
}

// writeNotes writes the version's part of CHANGELOG.md; that of Unreleased for a version that has none yet.
func (r *release) writeNotes() error {
	data, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	parts := map[string]string{}
	for _, part := range strings.Split("\n"+string(data), "\n## ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		title, _, _ = strings.Cut(strings.Trim(title, "[]"), " ")
		parts[strings.TrimSuffix(title, "]")] = strings.TrimSpace(text)
	}
	notes := cmp.Or(parts[r.version], parts["Unreleased"])
	if notes == "" {
		return fmt.Errorf("CHANGELOG.md has neither a part %s nor a part Unreleased", r.version)
	}
	return os.WriteFile(filepath.Join(r.out, "NOTES.md"), []byte("# Maestro "+r.version+"\n\n"+notes+"\n"), 0o644)
}

// writeSums writes SHA256SUMS, as sha256sum -c reads it.
func (r *release) writeSums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), sums.Bytes(), 0o644)
}
