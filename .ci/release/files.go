package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/maestro-hive/maestro/internal/app/cli"
)

// file is a file of an installation.
type file struct {
	// archived is its path in the archive, below the archive's one directory; empty: the archive does not have it.
	archived string
	// installed is its path on a machine on which a package installs it; empty: packages do not have it.
	installed string
	// settings: an administrator edits it, and an upgrade keeps it.
	settings bool
	mode     os.FileMode
	data     []byte
}

// programs are the programs, and the directories from which they are compiled.
var programs = []struct{ name, module, directory string }{
	{"maestro", ".", "./starter"},
	{"maestro-worker", ".", "./worker"},
	{"maestro-shim", ".", "./internal/sandbox/room/maestro-shim"},
	{"maestro-namespace", ".", "./deploy/namespace"},
	{"maestro-server", "server", "."},
}

// compile compiles the programs as the Makefile does.
func (r *release) compile(ctx context.Context, to platform) ([]file, error) {
	dir, err := os.MkdirTemp("", "maestro-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var files []file
	for _, p := range programs {
		out := filepath.Join(dir, p.name)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", out, p.directory)
		cmd.Dir, cmd.Stderr = filepath.Join(r.root, p.module), os.Stderr
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+to.os, "GOARCH="+to.arch)
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("compile %s: %w", p.name, err)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		files = append(files, file{archived: "bin/" + p.name, installed: "/usr/bin/" + p.name, mode: 0o755, data: data})
	}
	return files, nil
}

// sharedFiles are the files of the repository that an installation has; units of systemd only on Linux. Packages install
// programs to /usr/bin, so their unit starts the worker there.
func (r *release) sharedFiles(to platform) ([]file, error) {
	const docs = "/usr/share/doc/maestro/"
	files := []file{
		{archived: "LICENSE", installed: docs + "copyright"},
		{archived: "README.md", installed: docs + "README.md"},
		{archived: "CHANGELOG.md", installed: docs + "CHANGELOG.md"},
		{archived: "systemd/maestro-worker.service", installed: "/usr/lib/systemd/system/maestro-worker.service"},
		{archived: "systemd/maestro.sysusers.conf", installed: "/usr/lib/sysusers.d/maestro.conf"},
		{archived: "systemd/rooms.conf", installed: docs + "rooms.conf"},
		{archived: "systemd/run-as.conf", installed: docs + "run-as.conf"},
		{archived: "systemd/worker.env.example", installed: "/etc/maestro/worker.env", settings: true},
	}
	if to.os != "linux" {
		files = slices.DeleteFunc(files, func(f file) bool { return strings.HasPrefix(f.archived, "systemd/") })
	}
	for i, f := range files {
		source := f.archived
		if strings.HasPrefix(source, "systemd/") {
			source = "deploy/" + source
		}
		data, err := os.ReadFile(filepath.Join(r.root, source))
		if err != nil {
			return nil, err
		}
		files[i].data, files[i].mode = data, 0o644
		if f.settings {
			files[i].mode = 0o600
		}
	}
	return files, nil
}

// packaged is the file as a package has it.
func (f file) packaged() []byte {
	if path.Base(f.installed) == "maestro-worker.service" {
		return bytes.ReplaceAll(f.data, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
	}
	return f.data
}

// pages are the manual's pages and the completions of the shells.
func (r *release) pages() ([]file, error) {
	root := cli.Commands()
	var files []file
	shells := []struct {
		archived, installed string
		write               func(*bytes.Buffer) error
	}{
		{
			"completions/maestro.bash", "/usr/share/bash-completion/completions/maestro",
			func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		},
		{
			"completions/_maestro", "/usr/share/zsh/vendor-completions/_maestro",
			func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		},
		{
			"completions/maestro.fish", "/usr/share/fish/vendor_completions.d/maestro.fish",
			func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
		},
	}
	for _, s := range shells {
		var text bytes.Buffer
		if err := s.write(&text); err != nil {
			return nil, err
		}
		files = append(files, file{archived: s.archived, installed: s.installed, mode: 0o644, data: text.Bytes()})
	}
	header := doc.GenManHeader{Section: "1", Date: &r.at, Source: "Maestro " + r.version, Manual: "Maestro"}
	for _, c := range allCommands(root) {
		var text, packed bytes.Buffer
		page := header
		page.Title = strings.ToUpper(strings.ReplaceAll(c.CommandPath(), " ", "-"))
		c.DisableAutoGenTag = true
		if err := doc.GenMan(c, &page, &text); err != nil {
			return nil, err
		}
		zip := gzip.NewWriter(&packed)
		_, failed := zip.Write(text.Bytes())
		if err := errors.Join(failed, zip.Close()); err != nil {
			return nil, err
		}
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1.gz"
		files = append(files, file{
			archived: "man/" + name, installed: "/usr/share/man/man1/" + name, mode: 0o644,
			data: packed.Bytes(),
		})
	}
	return files, nil
}

// allCommands lists a command and those below it that people see.
func allCommands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() || sub.HasAvailableSubCommands() {
			all = append(all, allCommands(sub)...)
		}
	}
	return all
}
