// Package apply takes what a session has changed home: into a directory, as a patch, or as a commit on a branch that touches
// neither working tree nor index. What was changed there meanwhile is never written over unasked: it is a conflict, and then
// nothing is done at all. Which directory is meant, and what a person reads of the outcome, is its callers' business.
//
// Start reading in apply.go for files and patches, in branch.go for commits, and in push.go for branches of remote
// repositories:
//
//	apply.go    when conflicts refuse everything, and what force writes over
//	branch.go   the parent of the commit, its message, author and committer, and what of the parent counts as a conflict
//	push.go     whose branch it is, when a branch counts as taken or rewritten, how long a push may take, and how often it begins
//	            anew because others push at the same time
//	merge.go    whether a conflict with commits of others is settled, and whose lines are kept then
//	remote.go   the settings and credentials of git in the clone, and who has to act on an error of git: the failure's category
//	git.go      the variables of git that are not passed on, and how much of what git prints is kept
//	tracked.go  which ignored or secret-looking files of a repository are taken, because git tracks them; source.go: commit,
//	            address and path of a directory in its repository
package apply
