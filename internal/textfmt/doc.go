// Package textfmt forms short texts: cut to a length, counted, with a unit, or with the word
// that was meant.
package textfmt
