// Package layers keeps trees as read-only layers, once per host, by the digests of their
// manifests. The layers are the lower directories of overlays.
//
// A layer holds a whole tree, or what its tree adds to the whole one below it and changes in it. It is made in a temporary
// directory and renamed, so that it exists completely or not at all, even after kill -9. Nothing is flushed to the disk: layers
// that were made before the last boot of the host may be incomplete after a power loss. They are not used, and removed.
//
// Several processes may share one root. A shared flock on its directory keeps a layer, and
// the one below it, from removal.
//
// Start reading in layers.go, at Acquire:
//
//	layers.go  which layers a tree is in, how large all together may be by default, and who may read them
//	make.go    when a tree is put on top of the layer of a similar one (it removes nothing, and changes at most half)
//	remove.go  which layers are removed, the least recently used first, and what a full disk frees
//	note.go    that layers from before the last boot are not used, and the locks that keep a layer from removal
//	stamp.go   how a layer that was changed since it was made is found
package layers
