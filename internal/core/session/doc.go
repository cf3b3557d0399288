// Package session has what is recorded of a session: its status, the records of its
// assignments, its checkpoints, its requests to people and its notices.
//
// The package is pure: it reads no clock, no environment and no file. Only [Timer], which no
// workflow uses, runs on the real clock. The workflow, the activities and the command line share it.
package session
