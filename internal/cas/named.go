package cas

import (
	"context"
	"iter"

	"github.com/maestro-hive/maestro/internal/spec"
)

// Named is a blob of a tree.
type Named struct {
	// Path is that of the file or directory in the tree; a directory's ends in a slash.
	Path string
	Blob spec.Digest
	// Dir: the blob is a directory, or a part of one.
	Dir bool
}

// Named goes through the blobs of a tree, a directory after what is in it. It goes into no
// directory that was seen, and notes those that it has seen. With a directory that cannot be
// read comes the error, a [*Fault] if it is the blob's, and the rest of the tree follows. With
// anywhere, the tree may be a directory of another one, out of which its links may lead.
func (s trees) Named(ctx context.Context, tree spec.Digest, seen map[spec.Digest]bool, anywhere bool) iter.Seq2[Named, error] {
	return func(yield func(Named, error) bool) {
		w := &namedWalk{s, seen, anywhere, yield}
		w.dir(ctx, "", &treeDir{blob: tree})
	}
}

type namedWalk struct {
	trees
	seen     map[spec.Digest]bool
	anywhere bool
	yield    func(Named, error) bool
}

// dir visits a directory at a path that ends in a slash, or at the top.
func (w *namedWalk) dir(ctx context.Context, at string, d *treeDir) (more bool) {
	if w.seen[d.blob] {
		return true
	}
	w.seen[d.blob] = true
	err := w.load(ctx, d)
	if err == nil && !w.anywhere {
		err = w.checkAt(d, at)
	}
	if err != nil {
		return w.yield(Named{at, d.blob, true}, err)
	}
	for _, e := range d.entries {
		p := at + e.name
		if e.sub == nil {
			more = e.SHA256 == "" || w.yield(Named{p, e.SHA256, false}, nil)
		} else { // in no tree there is one at a longer path
			more = len(p) > MaxPath || w.dir(ctx, p+"/", e.sub)
		}
		if !more {
			return false
		}
	}
	for _, part := range d.parts {
		if w.seen[part] {
			continue
		}
		w.seen[part] = true // what is in it was visited
		if !w.yield(Named{at, part, true}, nil) {
			return false
		}
	}
	return w.yield(Named{at, d.blob, true}, nil)
}
