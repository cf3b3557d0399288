// Package textfmt formats short texts: it cuts to a length, counts, adds units, and suggests the intended word.
//
//	shorten.go   how a text is cut, at its end or at its beginning, and how the cut is marked
//	suggest.go   which known word is near enough to be suggested for an unknown one
//	text.go      first lines, numbers with nouns, sizes for people, lists of which the first are named, and how a program that
//	             acts for a person is named
//	bytesize.go  sizes like 100MB or 64KiB in YAML, and their units; duration.go: times like 30m in YAML and JSON
package textfmt
