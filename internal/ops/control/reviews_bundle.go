package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/ops/apply"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/store/cas"
)

// bundleFile is the file of a bundle.
var bundleFile = store.ArchiveFile{
	Document: "result.json", MaxDocument: 1 << 20, MaxFile: cas.DefaultFileBytes,
	MaxBytes: maxUnpacked,
}

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
// result, and the manifests and files as blobs.
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
	head, err := json.Marshal(bundled{
		Result: result, Part: result.Part, Workspace: work.Workspace, Tree: work.Tree,
		Commit: result.Source.Commit,
	})
	if err == nil {
		err = checkBundle(ctx, content, head, needed)
	}
	return Download{Name: in.Session + ".bundle.tar.gz", WriteTo: func(ctx context.Context, w io.Writer) error {
		_, err := bundleFile.Write(ctx, w, head, content, needed)
		return err
	}}, err
}

// checkBundle rejects a bundle that [ReadBundle] would reject.
func checkBundle(ctx context.Context, content *cas.Store, head []byte, needed []spec.Digest) error {
	total := int64(len(head))
	if total > bundleFile.MaxDocument {
		return invalidf("", "the document of the result is larger than %d MiB; work on the host of the store instead",
			bundleFile.MaxDocument>>20)
	}
	for _, name := range needed {
		size, err := content.BlobSize(ctx, name)
		if err != nil {
			return err
		}
		if total += size; size > cas.DefaultFileBytes || total > maxUnpacked {
			return invalidf("", "the result has a file of more than %d MB, or more than %d MiB of files; work on the host of the "+
				"store, or get single files with `maestro artifacts get`", cas.DefaultFileBytes/1_000_000, maxUnpacked>>20)
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
func ReadBundle(ctx context.Context, r io.Reader, into *store.Store) (result Result, err error) {
	batch, err := into.Blobs().NewBatch()
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	var head bundled
	_, err = bundleFile.Read(ctx, r, batch, func(document io.Reader) error { return json.NewDecoder(document).Decode(&head) })
	if err == nil {
		err = batch.Commit(ctx)
	}
	if err != nil {
		return result, fmt.Errorf("read the result: %w", err)
	}
	return head.result(into), nil
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
