// Package cli is the command line: it parses commands, prints their results, and returns exit codes. Everything that a command
// uses outside the process is passed in [Env], so that tests run commands like a user.
//
// Results go to standard output, everything else to standard error. A failure is one sentence with a remedy.
//
// Start reading in cli.go: Execute runs one command line, and newRoot has all commands. Most commands ask for operations of
// internal/faces/httpapi's table, which backend.go runs here or at a server. Shared by the commands:
//
//	cli.go           all commands, and the flags that each kind of command has; env.go: what of its process a command may use
//	errors.go        the exit code of each error; requests.go: that of a session that has ended or waits for a person
//	target.go        the flags that name Temporal, the store or a server; backend.go: whether a server or this process runs an
//	                 operation, and the largest file with a secret
//	connector.go     how the store is opened, and what an error suggests to do; complete.go: what a shell offers
//	console.go       results as tables, JSON and CSV; inputs.go: the flags for phases, files and decisions
//
// The commands:
//
//	run.go           which team `run` uses without a team file; run_requirement.go: where the requirement is read
//	run_local.go     whether `run` starts a server and a worker, and how long they may take; run_ticket.go: tickets of Jira
//	plan.go          `plan`; resume.go: `resume` and `fork`; deliver.go: `deliver`; cancel.go: `cancel`
//	status.go        `status`, and how many alerts it prints; list.go: `list`, and how --since is read; usage.go: `usage`
//	watch.go         how often a session is looked at, and when the connection counts as lost; lookout.go: a single look
//	watch_events.go  the lines that `watch` prints; watch_view.go: the live view, and the answers that are typed in it
//	logs.go          which attempts `logs` prints, and what it shortens; logs_follow.go: live output, each part printed once, and
//	                 how much of it is read at once
//	artifacts.go     `artifacts`; apply.go: `apply`, the directory that it writes to, and why it refuses a result
//	budget.go        `budget`; breaker.go: `breaker`; agents.go: `agents`
//	checkpoints.go   `checkpoints`, of which checkpoints_archive.go has export and import, checkpoints_import_hive.go how a
//	                 checkpoint of Maestro Hive becomes a session, and checkpoints_prune.go the shortest time between scheduled
//	                 prunes
//	inbox.go         `inbox`; requests.go: which open request an answer means; resolve.go: `resolve`, `approve` and `reject`
//	dev.go           `dev` and `demo`, and the ports of Temporal; dev_background.go: `dev status`, `dev logs` and `dev stop`, and
//	                 how long a stop may take
//	serve.go         `serve` and `mcp`, the default address, and sign-in by a provider; worker.go: `worker`
//	team.go          `team`, and whether a name is a file's or a registered team's; init.go: `init`; validate.go: `validate`
//	token_hook_audit.go        `token`, `hook` and `audit`, and how long a token is good by default; people.go: `people`
//	backup.go        `backup` and `restore`; doctor.go: `doctor`; version.go: `version` and `schema`
package cli
