// Package cmdline is what the command lines of both programs have in common: how help
// and the version look, and what is said about arguments and flags that are wrong.
package cmdline
