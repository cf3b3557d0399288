// Package deliver delivers a session's work as a pull request: it is the agent of phases that deliver. One attempt pushes
// the branch, opens the pull request, looks at it, and takes the steps that [delivery.Decide] names, until others have to act.
// Each step may be repeated after a crash, and does its effect once. Begin with [Deliverer.Run].
package deliver
