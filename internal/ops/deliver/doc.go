// Package deliver delivers a session's work as a pull request: it is the agent of phases that deliver. One attempt pushes the
// branch, opens the pull request, looks at it, and takes the steps that [delivery.Decide] names, until others have to act. Each
// step may be repeated after a crash, and does its effect once. Begin with [Deliverer.Run].
//
//	deliver.go       the order of an attempt, how long it may take, how many steps it may have, what is noted before a step is
//	                 taken, and which repository is meant
//	push.go          the author of commits, and what follows if the branch cannot be pushed: a person is asked, or the work is
//	                 sent back
//	pull_request.go  how the pull request is opened and described, and which comments are answered and resolved
package deliver
