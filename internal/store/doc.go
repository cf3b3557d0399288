// Package store stores the results of sessions: the content of files, by package cas, the database, by package state, and
// the mirror. It verifies, prunes, exports and imports.
//
//	store.json                                     id, version
//	state.db                                       the database
//	blobs/sha256/<2 hex>/<62 hex>                  exactly the bytes that the name is the SHA-256 of
//	sessions/<namespace>/<session>/                the mirror: execution_state.json, checkpoint_<phase>.json
//	damaged/                                    what was found damaged, moved out of the way
//	locks/, tmp/                                   the store's own; nothing in them is needed to resume
//	work/                                          package workdir's, unless agents run as another user
//
// Several processes may use one store at once. A file of the mirror is replaced atomically. Every read is
// verified. A blob that is damaged is moved to damaged/ and reported as
// [session.ErrCorrupt]. Errors that are neither a [*failures.Failure] nor one of package
// session's sentinel errors mean that the directory cannot be used at the moment: a full disk, a
// missing permission.
package store
