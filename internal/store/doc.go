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
//
// Start reading in store.go, at Open:
//
//	store.go           how a store is made and opened, and which format it has; location.go: the database and the bucket that
//	                   several hosts share (MAESTRO_STORE, MAESTRO_CONTENT); shared.go: that a directory, a database and a
//	                   bucket belong together
//	lock.go            that one executor works on an assignment, by a lock and, among hosts, a lease; how long a lease lasts
//	                   is in internal/core/session/lease.go
//	checkpoint.go      which checkpoint is the newest that can be read, and what is mended from the mirror
//	mirror.go          when the mirror is written, compared and cleaned, and what is not overwritten; digested.go: the digest
//	                   in its documents
//	prune.go           how many checkpoints a prune keeps and how old they may be, which sessions count as ended, and how
//	                   young blobs are kept in any case; sweep.go: in which order blobs are removed; reach.go: which blobs
//	                   are needed, directly or not
//	verify.go          what is verified, and what is repaired; faults.go: what a fault says of the file and of what needs it
//	export_session.go  what an archive of a session has; import_session.go: what is refused, and that an imported session is
//	                   closed; archive.go: the form of archives, and how many files and bytes one may have
package store
