package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the formats of packages
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// writeArchive writes maestro_VERSION_OS_ARCH.tar.gz, with one directory.
func (r *release) writeArchive(to platform, files []file) error {
	top := fmt.Sprintf("maestro-%s-%s-%s/", r.version, to.os, to.arch)
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if err := r.writeTar(zip, files, func(f file) string {
		if f.archived == "" {
			return ""
		}
		return top + f.archived
	}); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return os.WriteFile(r.name("maestro", to, ".tar.gz"), packed.Bytes(), 0o644)
}

// writeTar writes files, sorted by their paths, with their directories, owned by root.
func (r *release) writeTar(to interface{ Write([]byte) (int, error) }, files []file, pathOf func(file) string) error {
	out := tar.NewWriter(to)
	sorted := slices.DeleteFunc(slices.Clone(files), func(f file) bool { return pathOf(f) == "" })
	slices.SortFunc(sorted, func(a, b file) int { return cmp.Compare(pathOf(a), pathOf(b)) })
	made := map[string]bool{".": true, "/": true}
	var directories func(dir string) error
	directories = func(dir string) error {
		if made[dir] {
			return nil
		}
		if err := directories(path.Dir(dir)); err != nil {
			return err
		}
		made[dir] = true
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: r.at, Format: tar.FormatPAX})
	}
	for _, f := range sorted {
		if err := directories(path.Dir(pathOf(f))); err != nil {
			return err
		}
		if err := out.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: pathOf(f), Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: r.at, Format: tar.FormatPAX,
		}); err != nil {
			return err
		}
		if _, err := out.Write(f.data); err != nil {
			return err
		}
	}
	return out.Close()
}

// postInstall makes the worker's user. The service is not started: it needs a worker file first.
const postInstall = `#!/bin/sh
set -e
if command -v systemd-sysusers >/dev/null; then systemd-sysusers maestro.conf; fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart maestro-worker.service || true
fi
`

// preRemove stops the service before its program goes, but not in an upgrade.
const preRemove = `#!/bin/sh
set -e
if [ "$1" = remove ] || [ "$1" = 0 ]; then
	if [ -d /run/systemd/system ]; then systemctl disable --now maestro-worker.service || true; fi
fi
`

// writePackages writes the .deb and the .rpm.
func (r *release) writePackages(to platform, files []file) error {
	dir, err := os.MkdirTemp("", "maestro-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	put := func(name string, data []byte) (string, error) {
		at := filepath.Join(dir, name)
		return at, os.WriteFile(at, data, 0o600)
	}
	info := &nfpm.Info{
		Name: "maestro", Arch: to.arch, Platform: "linux", Version: r.version, Section: "devel", Priority: "optional",
		License: "Apache-2.0", MTime: r.at,
		Maintainer: "The Maestro authors <maestro@example.org>", Homepage: "https://github.com/maestro-hive/maestro",
		Description: "Runs a team of AI personas through the phases of a piece of work, durably, on Temporal.",
	}
	info.Recommends, info.Umask = []string{"git", "ca-certificates"}, 0o022
	info.RPM.BuildHost = "maestro"
	for i, f := range files {
		if f.installed == "" {
			continue
		}
		source, err := put(fmt.Sprint(i), f.packaged())
		if err != nil {
			return err
		}
		content := &nfpmfiles.Content{Source: source, Destination: f.installed, FileInfo: &nfpmfiles.ContentFileInfo{
			Owner: "root",
			Group: "root", Mode: f.mode, MTime: r.at,
		}}
		if f.settings {
			content.Type = nfpmfiles.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, content)
	}
	if info.Scripts.PostInstall, err = put("postinstall", []byte(postInstall)); err != nil {
		return err
	}
	if info.Scripts.PreRemove, err = put("preremove", []byte(preRemove)); err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		described := nfpm.WithDefaults(info)
		if err := packager.Package(described, &packed); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
		if err := os.WriteFile(r.name("maestro", to, "."+format), packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeImage writes an image that `docker load` and `podman load` take. It has the programs and the roots of certificates, and
// nothing else: agents that are programs need an image of their own, to which the programs are copied from this one.
func (r *release) writeImage(to platform, files []file) error {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil { // a file cannot hold it
			continue
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return err
		}
	}
	inside := []file{
		{installed: "/etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots.Bytes()},
		{installed: "/etc/passwd", mode: 0o644, data: []byte("maestro:x:10001:10001::/var/maestro:/sbin/nologin\n")},
		{installed: "/etc/group", mode: 0o644, data: []byte("maestro:x:10001:\n")},
	}
	for _, f := range files {
		if strings.HasPrefix(f.archived, "bin/") {
			inside = append(inside, file{installed: "/usr/local/" + f.archived, mode: f.mode, data: f.data})
		}
	}
	layerPath := filepath.Join(os.TempDir(), fmt.Sprintf("maestro-layer-%d.tar", os.Getpid()))
	layer, err := os.Create(layerPath)
	if err != nil {
		return err
	}
	defer os.Remove(layerPath)
	if err := errors.Join(r.writeTar(layer, inside, func(f file) string { return strings.TrimPrefix(f.installed, "/") }),
		layer.Close()); err != nil {
		return err
	}
	programs, err := tarball.LayerFromFile(layerPath)
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, programs)
	if err != nil {
		return err
	}
	config := &v1.ConfigFile{OS: "linux", Architecture: to.arch, Created: v1.Time{Time: r.at}, Config: v1.Config{
		User: "10001:10001", WorkingDir: "/var/maestro", Entrypoint: []string{"maestro-worker"},
		ExposedPorts: map[string]struct{}{"8081/tcp": {}, "9464/tcp": {}},
		Env: []string{
			"PATH=/usr/local/bin", "MAESTRO_STATE_DIR=/var/maestro/state", "MAESTRO_AGENTS=/etc/maestro/agents.yaml",
			"MAESTRO_HEALTH_PORT=8081", "MAESTRO_METRICS_ADDRESS=0.0.0.0:9464",
		},
		Labels: map[string]string{
			"org.opencontainers.image.title": "Maestro worker", "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}}
	layers, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config.RootFS, config.History = layers.RootFS, []v1.History{{Created: v1.Time{Time: r.at}, CreatedBy: "release"}}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag("maestro-worker:" + strings.ReplaceAll(r.version, "+", "-"))
	if err != nil {
		return err
	}
	return tarball.WriteToFile(r.name("maestro-worker", to, ".image.tar"), tag, image)
}

// writeBill writes the modules of all programs as a CycloneDX document.
func (r *release) writeBill(to platform, files []file) error {
	bill := cyclonedx.NewBOM()
	bill.Metadata = &cyclonedx.Metadata{
		Timestamp: r.at.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: "maestro", Type: cyclonedx.ComponentTypeApplication, Name: "maestro",
			Version: r.version,
		},
	}
	components := map[string]cyclonedx.Component{}
	for _, f := range files {
		if !strings.HasPrefix(f.archived, "bin/") {
			continue
		}
		built, err := buildinfo.Read(bytes.NewReader(f.data))
		if err != nil {
			return fmt.Errorf("%s: %w", f.archived, err)
		}
		components["go"] = cyclonedx.Component{
			BOMRef: "go", Type: cyclonedx.ComponentTypeFramework, Name: "go",
			Version: strings.TrimPrefix(built.GoVersion, "go"),
		}
		for _, m := range built.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if strings.HasPrefix(m.Path, ".") || m.Version == "" { // the repository's own
				continue
			}
			ref := "pkg:golang/" + m.Path + "@" + m.Version
			c := cyclonedx.Component{BOMRef: ref, PackageURL: ref, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version}
			if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
				c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
			}
			components[ref] = c
		}
	}
	var all []cyclonedx.Component
	for _, c := range components {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bill.Components = &all
	var text bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bill); err != nil {
		return err
	}
	return os.WriteFile(r.name("maestro", to, ".cdx.json"), text.Bytes(), 0o644)
}
