package control

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

const (
	bundleHead    = "result.json"
	bundleObjects = "objects/"
	// maxBundleHead limits the first entry of a bundle, in bytes.
	maxBundleHead = 1 << 20
)

// BundleInput selects the part of a session's result in a bundle.
type BundleInput struct {
	Session string   `path:"session" maxLength:"200" doc:"the session's id"`
	Tree    bool     `query:"tree" doc:"the files of the newest tree; otherwise those that the session has changed, as they were and as they are"`
	Paths   []string `query:"path,explode" maxItems:"100" doc:"a file, directory or pattern of the tree; repeatable"`
}

// bundled is the first entry of a bundle.
type bundled struct {
	Result
	// Part is the one of [Completeness].
	Part string `json:"part"`
	// Workspace and Tree are the manifests at the session's start and of its newest tree.
	Workspace spec.Digest `json:"workspace"`
	Tree      spec.Digest `json:"tree"`
	// Commit is the git commit that the workspace was taken from.
	Commit string `json:"commit"`
}

// Bundle is a session's result for another host: a tar.gz archive with the document of the
// result, and the manifests and files as objects, whose names are the digests of their contents.
func (r Reviews) Bundle(ctx context.Context, in BundleInput) (Download, error) {
	read := r.Result
	if in.Tree {
		read = r.Newest
	}
	result, err := read(ctx, in.Session)
	if err != nil {
		return Download{}, err
	}
	content, work := result.Work.Store.Content, result.Work
	needed, err := bundleBlobs(ctx, content, work, in)
	if err != nil {
		return Download{}, err
	}
	head, err := json.Marshal(bundled{Result: result, Part: result.Part, Workspace: work.Workspace, Tree: work.Tree, Commit: result.Source.Commit})
	if err == nil {
		err = checkBundle(content, head, needed)
	}
	return Download{Name: in.Session + ".bundle.tar.gz", WriteTo: func(ctx context.Context, w io.Writer) error {
		return writeBundle(ctx, content, head, needed, w)
	}}, err
}

func writeBundle(ctx context.Context, content *cas.Store, head []byte, needed []spec.Digest, w io.Writer) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	if err := archive.WriteHeader(&tar.Header{Name: bundleHead, Mode: 0o644, Size: int64(len(head)), ModTime: earliest}); err != nil {
		return err
	}
	if _, err := archive.Write(head); err != nil {
		return err
	}
	for _, name := range needed {
		size, err := content.BlobSize(name)
		if err == nil {
			err = archive.WriteHeader(&tar.Header{Name: bundleObjects + string(name), Mode: 0o644, Size: size, ModTime: earliest})
		}
		if err == nil {
			_, err = content.CopyBlob(ctx, name, archive)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// checkBundle rejects a bundle that [ReadBundle] would reject.
func checkBundle(content *cas.Store, head []byte, needed []spec.Digest) error {
	total := int64(len(head))
	if total > maxBundleHead {
		return invalidf("", "the document of the result is larger than %d MiB; work on the host of the store instead", maxBundleHead>>20)
	}
	for _, name := range needed {
		size, err := content.BlobSize(name)
		if err != nil {
			return err
		}
		if total += size; size > cas.DefaultFileBytes || total > maxUnpacked {
			return invalidf("", "the result has a file of more than %d MiB, or more than %d MiB of files; work on the host of the store, or get single files with `maestro artifacts get`", cas.DefaultFileBytes>>20, maxUnpacked>>20)
		}
	}
	return nil
}

// bundleBlobs lists the directories of the trees, and the files, that a bundle has.
func bundleBlobs(ctx context.Context, content *cas.Store, work apply.Work, in BundleInput) ([]spec.Digest, error) {
	names, seen := map[spec.Digest]bool{}, map[spec.Digest]bool{}
	for _, tree := range []spec.Digest{work.Workspace, work.Tree} {
		for n, err := range content.TreeBlobs(ctx, tree, seen, false) {
			if err != nil {
				return nil, err
			}
			if n.Dir {
				names[n.Blob] = true
			}
		}
	}
	before, err := content.Tree(ctx, work.Workspace)
	if err != nil {
		return nil, err
	}
	after, err := content.Tree(ctx, work.Tree)
	if err != nil {
		return nil, err
	}
	if in.Tree {
		err = selectedBlobs(ctx, after, in.Paths, names)
	} else {
		err = changedBlobs(ctx, before, after, names)
	}
	delete(names, "") // that of links
	return slices.Sorted(maps.Keys(names)), err
}

func selectedBlobs(ctx context.Context, tree *cas.Tree, paths []string, names map[spec.Digest]bool) error {
	all, err := tree.Manifest(ctx)
	if err != nil {
		return err
	}
	selected, err := all.Select(paths)
	if err != nil {
		return unselected(err, paths)
	}
	for _, p := range selected {
		names[all[p].SHA256] = true
	}
	return nil
}

func changedBlobs(ctx context.Context, before, after *cas.Tree, names map[spec.Digest]bool) error {
	d, err := cas.Diff(ctx, before, after)
	if err != nil {
		return err
	}
	for p, c := range d {
		old, _, err := before.Get(ctx, p)
		if err != nil {
			return err
		}
		names[old.SHA256], names[c.SHA256] = true, true
	}
	return nil
}

// ReadBundle reads a bundle into a store, and verifies it. The result has no source directory of
// its workspace.
func ReadBundle(ctx context.Context, r io.Reader, into *store.Store) (Result, error) {
	plain, err := gzip.NewReader(r)
	if err != nil {
		return Result{}, fmt.Errorf("read the result: %w", err)
	}
	archive, left := tar.NewReader(plain), int64(maxUnpacked)
	var head bundled
	for first := true; ; first = false {
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF) && !first:
			return head.result(into), nil
		case err != nil:
			return Result{}, fmt.Errorf("read the result: %w", err)
		case first && (h.Name != bundleHead || h.Size > maxBundleHead):
			return Result{}, errors.New("read the result: the archive is none of a session's result")
		case !first && path.Dir(h.Name)+"/" != bundleObjects, h.Size > cas.DefaultFileBytes, h.Size > left:
			return Result{}, fmt.Errorf("read the result: %q is not one of its files, or larger than expected", textfmt.Shorten(h.Name, 80))
		}
		left -= h.Size
		data, err := io.ReadAll(io.LimitReader(archive, h.Size))
		if err == nil && first {
			err = json.Unmarshal(data, &head)
		} else if err == nil {
			err = put(ctx, into, spec.Digest(path.Base(h.Name)), data)
		}
		if err != nil {
			return Result{}, fmt.Errorf("read the result: %w", err)
		}
	}
}

// put stores an object and checks its name.
func put(ctx context.Context, into *store.Store, name spec.Digest, data []byte) error {
	if found := cas.DigestOf(data); found != name {
		return fmt.Errorf("object %q has the content of %s", textfmt.Shorten(string(name), 80), found.Short())
	}
	_, err := into.Content.PutBlob(ctx, data)
	return err
}

// result is the result with its files in a store.
func (b bundled) result(in *store.Store) Result {
	r := b.Result
	r.Part = b.Part
	r.Source = session.Source{Commit: b.Commit}
	r.Work = apply.Work{Store: in}
	r.Work.Name, r.Work.Workspace, r.Work.Tree, r.Work.CurrentPhase = r.Checkpoint, b.Workspace, b.Tree, r.Phase
	return r
}

// Pack writes the files of a manifest as a tar.gz archive, in the form that [Starts.Upload] reads.
func Pack(ctx context.Context, content *cas.Store, files spec.Digest, w io.Writer) error {
	m, err := content.Manifest(ctx, files)
	if err != nil {
		return err
	}
	same := func(path string) string { return path }
	return writeTar(ctx, content, same, same, m, m.Paths(), w)
}
