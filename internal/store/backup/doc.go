// Package backup copies a store, while sessions run, and puts such a copy into a state directory.
//
// A backup is a directory with the content of the store, each blob once, and a copy of the database for each time that it was
// backed up. A copy of the database gets its name when all that it names is there: one that has its name is complete.
//
//	store.json                     id of the store
//	state-<time>.db                the database as it was at that time, UTC
//	blobs/sha256/<2 hex>/<62 hex>  as in the store
//	incomplete/                    what an interrupted backup has left; the next one removes it
//
// An archive has the same files, with one copy of the database. The mirror is not in it: it is written from the rest.
package backup
