// Package index is a cache of what the documents of a store say, in an SQLite database: for
// lists, filters, sums and histories of many sessions. It is never the truth. Whatever
// becomes of its file, it is made again from the store.
//
// [Index.Refresh] reads the documents of the sessions that have changed since it last did.
// Several processes may use one index side by side.
package index
