// Package ops is the room of the operations that people and programs use on sessions, through every face.
//
//	control       the operations, with the rights that they need and their audit
//	launch        starts, resumes and forks sessions
//	sessionstatus reads the status of a session from rows and from its workflow
//	apply         writes a result into a repository
//	deliver       opens a pull request for a result, and follows it until it is merged
//	hook          calls of other systems that start sessions
//	workerpool    workers and what they offer, and circuit breakers
//
// It imports the engine (workflows, activities, breaker) and the rooms below; faces and programs import it.
// Start reading in control/answer.go: an answer of a person, until the session has it.
package ops
