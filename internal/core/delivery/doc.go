// Package delivery is the vocabulary of work that is delivered as a pull request, and the decision of what to do next about
// one. It does no I/O: a [Host] looks at the pull request and changes it, and [Decide] says what to change. GitLab's merge
// requests are pull requests here.
//
// Start reading in decide.go, at Decide:
//
//	decide.go        what is done next: wait, run checks again, send work back, ask a person, merge the base, merge; how long
//	                 until the next look, and for how long checks may be missing; whose comments count
//	record.go        what is remembered between two looks, so that each comment is sent back once and each check is run again
//	                 once
//	pull_request.go  what a host has to provide, by which errors it fails, and how many comments of which length are read
//	text.go          the name of the branch, the title and description of a pull request, answers to comments, the feedback for
//	                 agents, their longest lengths, and how texts of others are quoted
package delivery
