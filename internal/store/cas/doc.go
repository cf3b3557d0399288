// Package cas is content-addressed storage. It stores blobs under their SHA-256, and manifests of
// directory trees and deltas between them as blobs. It fills directories from trees and makes
// trees of directories.
//
// Every read is verified. Content that does not match its digest is moved to damaged/ and
// reported as [session.ErrCorrupt]. The package has no notion of sessions; package store decides
// which blobs are still needed.
//
// Start reading in collect.go, which makes a tree of a directory, and materialise.go, which does the reverse:
//
//	collect.go        what the work of an attempt is: the delta, the tree, what is left out, and what is refused; protected.go:
//	                  which paths get their old content back
//	scan.go           which files of a directory belong to its tree, and the errors for too many files or bytes; ignore.go:
//	                  .git, .gitignore files and how many of their rules count, node_modules and the like; leftout.go: links
//	                  and others that no tree holds; overlay_upper.go: the upper layer of an overlay
//	ingest.go         that no file with a secret of the worker is stored, and when a file is too large; snapshot.go: a
//	                  workspace as a tree, and which files look like secrets by their names
//	store.go          the default limits of a tree: files, bytes of a file, bytes of all files
//	path.go           which paths and links are permitted, and how long they may be; refused.go: whether an error is the tree's
//	                  or the host's
//	fold.go           when changes of two personas are a conflict; sides.go: which version a result has kept, and what an
//	                  integrator is shown
//	tree_encoding.go  the encoding of a tree, and the most files and bytes of any tree; tree.go: reads and changes one;
//	                  tree_blobs.go: its blobs
//	manifest.go       the encoding of a delta, and which deltas and manifests are valid; diff.go: the delta between two trees;
//	                  overlay.go: one tree over another, and whether the store has all files of one
//	materialise.go    fills a directory with a tree, with which modes and owner; host_files.go: that a file which is replaced
//	                  meanwhile is not read, and no link is followed
//	apply.go          changes a person's directory: what is a conflict, and what blocks it; export.go: writes files of a tree
//	                  beside others, and which of these it replaces
//	patch.go          a difference as text, and the largest file that is compared line by line; gitbinary.go: git's binary
//	                  patches
//	unpack.go         what of an uploaded archive is left out, and when it is too large
//	blobs.go          that each read is verified, and what becomes of damaged blobs; fault.go: what is said of one
package cas
