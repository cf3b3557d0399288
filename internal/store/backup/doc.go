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
//
// Start reading in backup.go, at Run:
//
//	backup.go   how many copies of the database stay and how often one is made by default, when one is due, which blobs are
//	            removed, and which directory is refused
//	restore.go  into which directory a backup may be put, which copy of the database is taken, and what becomes of the
//	            database that is there
//	target.go   whether a backup is a directory or an archive (.tar.zst), and that each file is there as a whole or not at
//	            all
package backup
