// Package cli is the command line: what a person types, what they see, and the
// exit code that a script gets. Everything that a command touches outside the
// process is passed in [Env], so that tests run commands as a person
// does.
//
// Results go to standard output, everything else to standard error. A failure
// is one sentence with a remedy.
package cli
