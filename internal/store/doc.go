// Package store keeps what sessions produce in one directory: files by content
// (blobs, manifests, deltas), and the documents that let a session be resumed
// from that directory alone (assignment records, checkpoints,
// execution_state.json).
//
//	store.json                                     id, version
//	blobs/sha256/<2 hex>/<62 hex>                  exactly the bytes that the name is the SHA-256 of
//	sessions/<namespace>/<session>/                execution_state.json, checkpoint_<phase>.json
//	sessions/<namespace>/<session>/assignments/    <phase>.<persona>.json
//	workers/<id>.json                              what live workers offer
//	quarantine/                                    what was found damaged, moved out of the way
//	locks/, tmp/, index/, work/                    the store's own; nothing in them is needed to resume
//
// Several processes may use one store at once. A document is replaced whole or
// not at all; what is read is verified, and what does not verify is moved to
// quarantine/ and reported as [team.ErrCorrupt]. Errors that are neither a
// [*team.Failure] nor one of team's sentinel errors mean that the directory
// cannot be used at the moment: a full disk, a missing permission.
package store
