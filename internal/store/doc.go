// Package store keeps what sessions produce in one storage: files by content, which
// are package cas's, and the documents that let a session be resumed from that storage
// alone (assignment records, journals of paid calls, checkpoints, execution_state.json).
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
//	alerts/<namespace>/                            package control's: rules.json, raised.json
//	audit/, access/                                package access's: who changed what, and who may
//	quarantine/                                    what was found damaged, moved out of the way
//	locks/, tmp/, index/                           the store's own; nothing in them is needed to resume
//	work/                                          package workdir's, unless agents run as another user
//
// Several processes may use one store at once. A document is replaced whole or
// not at all, and a journal grows by whole lines; what is read is verified, and
// what does not verify is moved to quarantine/ and reported as [session.ErrCorrupt].
// Of a journal the damaged lines are passed over, and a copy is kept. Errors that are neither a
// [*failures.Failure] nor one of package session's sentinel errors mean that the directory
// cannot be used at the moment: a full disk, a missing permission.
package store
