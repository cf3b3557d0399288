// Package index is a cache of the documents of a store, in an SQLite database: for lists, filters,
// sums and histories of many sessions. It is never authoritative: if its file is lost or damaged,
// it is rebuilt from the store.
//
// [Index.Refresh] reads the documents of the sessions that have changed since the last refresh.
// Several processes may use one index at the same time.
package index
