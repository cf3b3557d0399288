// Package config reads what people write: team files, worker files, and where
// the state lives.
//
// It is strict. A file is either accepted whole, or refused with every problem
// that it has, each with its position, its field, what is wrong, what would be
// right, and the lines around it.
package config
