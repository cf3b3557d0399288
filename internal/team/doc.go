// Package team is Maestro's vocabulary: what a team file says, what a session
// consists of, how failures are classified, and what things are called.
//
// The package is pure: it reads no clock, no environment and no file. Whatever
// it computes is a function of its arguments, so the workflow, the activities
// and the command line can share it without sharing anything else.
package team
