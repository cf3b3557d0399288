// Package state is the state of an installation: rows of a SQL database, which is a SQLite file in the state directory or a
// PostgreSQL database. schema.sql says what there is; start reading there.
//
// The same statements run on both engines. What differs is in engine.go. Every function is bounded, takes a context,
// and is one transaction.
package state
