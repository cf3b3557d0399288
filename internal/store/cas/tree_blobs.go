package cas

import (
	"context"
	"iter"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// TreeBlob is a blob that a tree refers to.
type TreeBlob struct {
	// Path is the path of the file or directory in the tree; a directory's path ends in a slash.
	Path string
	Blob spec.Digest
	// Dir: the blob is a directory.
	Dir bool
}

// TreeBlobs yields the blobs of a tree, a directory after its content. It skips directories in
// seen, and adds those that it visits. If a directory cannot be read, it yields the error, which
// is a [*Fault] if the directory's blob is at fault, and continues with the rest of the tree.
// With anywhere, the tree may be a subdirectory of another tree, so its links may lead out of it.
func (s *Store) TreeBlobs(ctx context.Context, tree spec.Digest, seen map[spec.Digest]bool, anywhere bool) iter.Seq2[TreeBlob,
	error] {
	return func(yield func(TreeBlob, error) bool) {
		// visit visits a directory. Its path ends in a slash; the top's path is empty.
		var visit func(at string, d *treeDir) (more bool)
		visit = func(at string, d *treeDir) (more bool) {
			if seen[d.blob] {
				return true
			}
			seen[d.blob] = true
			err := s.load(ctx, d)
			if err == nil && !anywhere {
				err = s.checkAt(d, at)
			}
			if err != nil {
				return yield(TreeBlob{at, d.blob, true}, err)
			}
			var dirs []spec.Digest
			for _, e := range d.entries {
				if e.sub != nil && !seen[e.sub.blob] {
					dirs = append(dirs, e.sub.blob)
				}
			}
			if err := s.backend.Fetch(ctx, dirs); err != nil {
				return yield(TreeBlob{at, d.blob, true}, err)
			}
			for _, e := range d.entries {
				p := at + e.name
				if e.sub == nil {
					more = e.SHA256 == "" || yield(TreeBlob{p, e.SHA256, false}, nil)
				} else { // a longer path is not valid in any tree
					more = len(p) > MaxPath || visit(p+"/", e.sub)
				}
				if !more {
					return false
				}
			}
			return yield(TreeBlob{at, d.blob, true}, nil)
		}
		visit("", &treeDir{blob: tree})
	}
}
