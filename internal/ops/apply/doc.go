// Package apply takes what a session has changed home: into a directory, as a patch, or
// as a commit on a branch that touches neither working tree nor index. What was changed
// there meanwhile is never written over unasked: it is a conflict, and then nothing is
// done at all. Which directory is meant, and what a person reads of the outcome, is its
// callers' business.
package apply
