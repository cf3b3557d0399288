// Package control is the control plane of a store and its Temporal namespace: the operations by which people and programs read
// and change sessions. Each noun is a type with its operations, which take and return documents with stable JSON names. The
// command line, the HTTP API, the dashboard and the MCP server are its interfaces: they only convert input and display
// documents.
//
// Errors are an [*Error] with a kind, and those of the store and of Temporal.
//
// Start reading in base.go: may and change, with which operations on a session begin. All operations are in
// internal/faces/httpapi/table.go. The nouns:
//
//	base.go            whether the caller may do something with a session; errors.go: the kinds and reasons of errors
//	repeatable.go      a change that is sent again with its key is made once; starts_again.go: a start makes one session
//	starts.go          what is checked before a start, and the largest requirement; starts_plan.go: the document of a preview
//	starts_course.go   which phases, supplied files and edits are accepted; starts_fork.go: what a fork reuses, and its id
//	starts_resume.go   whether a resume starts a run, continues a paused one (starts_paused.go) or changes nothing
//	starts_deliver.go  the phase that delivers the work of a completed session, and the agent that does it
//	starts_upload.go   the largest upload, packed and unpacked, and who may upload; starts_keep.go: the most files as texts
//	starts_files.go    who may start from stored files, and for how long; which ids of sessions a caller may choose;
//	                   starts_directories.go: directories of the server that sessions may start from
//	sessions.go        when a cancelled session is terminated; sessions_status.go: what a status adds
//	sessions_list.go   which sessions are listed, how sorted; sessions_visible.go: whether Temporal's or the store's state
//	                   counts
//	feed.go            how often followers look for changes, and which they are told; sessions_statistics.go: sums of outcomes
//	inbox.go           which requests people see, with lost and stuck sessions; alerts.go: the age and number of listed alerts
//	answer.go          who may answer, whose approval counts, how long an answer waits, and what follows if no worker runs
//	attempts.go        output in progress; attempts_list.go: which are listed; attempts_read.go: the largest part of a
//	                   transcript; livelogs.go: in which directories live logs are, which is another attempt's, and in
//	                   how much of its end the newest line is searched
//	checkpoints.go     which checkpoint a phase or a digest names, and who may verify; kept.go: the newest one that can be read
//	reviews.go         the largest difference that a server sends; reviews_sides.go, reviews_attempt.go: what is compared
//	reviews_result.go  whether a result is whole, or lacks phases; reviews_file.go: one file of a comparison or a result;
//	                   reviews_archive.go: archives; reviews_bundle.go: the limits of a result for another host
//	money.go           raises of a session's budget; money_budgets.go: what is left of it; money_day.go: a team's daily budget
//	money_settle.go    which calls may be settled, and as what; money_usage.go, money_csv.go: sums of costs, also as a table
//	teams.go           which version of a registered team a name means
//	hooks.go           that a repeated call starts one session, and how long a start may take; hooks_session.go: which session a
//	                   call wakes, and how many sessions an issue may start
//	access.go          tokens and the audit log, and people.go: accounts and invitations, as internal/access has them
//	pool.go            workers, and breakers that a person opens or closes; health.go: how old the findings of doctor and the
//	                   size of the store may be; shared.go: how long computing such an answer may take
package control
