// Package state is the state of an installation: rows of a SQL database, which is a SQLite file in the state directory or a
// PostgreSQL database. schema.sql says what there is; start reading there.
//
// The same statements run on both engines. What differs is in engine.go. Every function is bounded, takes a context,
// and is one transaction. How long most rows are kept is up to the callers, like internal/access.
//
//	state.go         how a transaction is run and repeated (Write, Read), and the database's time; column.go: which columns
//	                 the fields of a struct are; errors.go: which errors mean that the database is away or damaged
//	engine.go        SQLite: how long a statement waits for a writer, and how many read; postgres.go: the limits of
//	                 PostgreSQL's connections and transactions, and that one whose reply was lost is not made twice; risks.go:
//	                 its settings that lose commits; filesystem*.go: where SQLite is not safe; migrate.go: whether a database
//	                 is too new
//	fence.go         which run of a session may write, and which execution; admit.go: which number a run gets; leases.go: who
//	                 has a lease
//	boundary.go      what each step of a session writes, and when it comes too late; status.go: reads it; checkpoints.go: rows
//	                 of checkpoints, and what the mirror lacks
//	rounds.go        who may work on a round (OpenRound), and which paid answers a pass may use (order); records.go: reads
//	                 rounds and attempts
//	calls.go         what a call reserves, how its end is booked, which stored answer fits, and which calls a person may close
//	budgets.go       which budgets a call counts against, and their sums and warnings; raises.go: what people add; day.go: a
//	                 team's day
//	usage.go         sums of costs; session_costs.go: the costs of a session; statistics.go: sums of outcomes
//	sessions.go      which sessions a list has, and in which order; changes.go: which have changed since a reader looked
//	breakers.go      that a change of a breaker counts once; workers.go: how long the offer of a worker is kept; teams.go: how
//	                 many versions of a team; tickets.go: that an older state of a ticket replaces no newer one;
//	                 deliveries.go: to which sessions a pull request belongs; servers.go: which running server is chosen
//	people.go        what ends when a person is revoked or recovered, and that an invitation is used once; passkeys.go: that a
//	                 ceremony is used once; browsers.go: when a browser is signed in, and one-time links; tokens.go: when a
//	                 token is active; hooks.go: what is known of a hook, with its secret; audit.go: which entries a filter
//	                 finds
//	idempotency.go   when a change that is sent again is made, and when its answer is repeated; uploads.go: which uploaded
//	                 files are known
//	roots.go         which columns keep content from being removed; content.go: which blobs of a bucket exist, when one may be
//	                 removed, and how long an upload may take
//	session_rows.go  the rows of a session in an archive, and what is refused of one; backup.go: copies, what a restored
//	                 database changes, and which sessions start again
package state
