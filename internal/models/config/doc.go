// Package config reads team files and worker files, and finds the state directory.
//
// It is strict. A file is either accepted as a whole, or rejected with all of its problems, each
// with its position, its field, what is wrong, how to correct it, and the lines around it.
//
// Start reading in load.go. rules.go finds unknown keys and values, document.go their lines, and problems.go writes
// the message.
//
// The types of the files, their rules and their defaults are in packages spec and agent.
package config
