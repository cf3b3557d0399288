// Package store stores the results of sessions: the content of files, by package cas, and the
// documents from which a session can be resumed without other data (assignment records,
// checkpoints, execution_state.json).
//
//	store.json                                     id, version
//	blobs/sha256/<2 hex>/<62 hex>                  exactly the bytes that the name is the SHA-256 of
//	sessions/<namespace>/<session>/                execution_state.json, ledger.json, checkpoint_<phase>.json
//	sessions/<namespace>/<session>/assignments/    <phase>.<persona>.json, <phase>.<persona>.calls.jsonl
//	sessions/<namespace>/<session>/budget.jsonl    what the session may spend
//	budgets/<namespace>/<team>/                    <date>.json, <date>.raises.jsonl: what a team has spent on a day, and may
//	tickets/<namespace>/<name>.json                what is known of a failure's ticket
//	teams/<name>.json                              the versions of a registered team
//	workers/<id>.json                              what live workers offer
//	quarantine/                                    what was found damaged, moved out of the way
//	locks/, tmp/, index/                           the store's own; nothing in them is needed to resume
//	work/                                          package workdir's, unless agents run as another user
//
// Several processes may use one store at once. A document is replaced atomically. Every read is
// verified. A document that is damaged is moved to quarantine/ and reported as
// [session.ErrCorrupt]. Errors that are neither a [*failures.Failure] nor one of package
// session's sentinel errors mean that the directory cannot be used at the moment: a full disk, a
// missing permission.
package store
