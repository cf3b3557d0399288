// Package hook reads the calls of other systems that start sessions, or wake those that wait for a pull request: it verifies
// the signature of a call, gives each call an identity that stays the same when it is repeated, and reads from it the session's
// parameters or the pull request. It uses neither the store nor HTTP, except headers and bodies.
//
// Start reading in verify.go, at Verify, and in read.go, at Read:
//
//	verify.go   whether a signature is valid, how far the time of a call may be from now, what identifies a call, and the id of
//	            the session that it starts
//	read.go     what a call asks for, how a generic call is mapped to requirement, decisions and labels, and which hooks are
//	            refused: too many users, labels or mapped values
//	event.go    the events of issues that can start a session, how many a hook may have, and which pull request an event is about
//	github.go   which events of GitHub count, and whose issues, labels and comments are trusted; gitlab.go: the same of GitLab
//	payload.go  which bodies are refused, and how values are read from them
package hook
