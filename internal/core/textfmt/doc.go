// Package textfmt formats short texts: it cuts to a length, counts, adds units, and suggests the
// intended word.
package textfmt
