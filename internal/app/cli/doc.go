// Package cli is the command line: it parses commands, prints their results, and returns exit
// codes. Everything that a command uses outside the process is passed in [Env], so that tests run
// commands like a user.
//
// Results go to standard output, everything else to standard error. A failure
// is one sentence with a remedy.
package cli
