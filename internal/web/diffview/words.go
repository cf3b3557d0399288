package diffview

import (
	"unicode"
	"unicode/utf8"
)

// span is a part of a line, in bytes.
type span struct{ from, to int }

// maxWords bounds the words of a line that are compared: the work grows with their product.
const maxWords = 160

// changed finds what differs between a removed line and the added one that replaces it. Both
// are nil where the lines have too little in common.
func changed(old, now string) (gone, come []span) {
	a, b := words(old), words(now)
	if a == nil || b == nil {
		return nil, nil
	}
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	last := 0
	for last < len(a)-first && last < len(b)-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	keptA, keptB := common(a[first:len(a)-last], b[first:len(b)-last])
	same := 0
	mark := func(words []string, kept []bool) []span {
		var spans []span
		at := 0
		for i, w := range words {
			keeps := i < first || i >= len(words)-last || kept[i-first]
			if keeps {
				same += len(w)
			} else if n := len(spans); n > 0 && spans[n-1].to == at {
				spans[n-1].to += len(w)
			} else {
				spans = append(spans, span{at, at + len(w)})
			}
			at += len(w)
		}
		return spans
	}
	gone, come = mark(a, keptA), mark(b, keptB)
	if same*2 < len(old) || same*2 < len(now) {
		if same*3 < len(old)+len(now) {
			return nil, nil
		}
	}
	return gone, come
}

// common marks the words of a longest common subsequence.
func common(a, b []string) (inA, inB []bool) {
	inA, inB = make([]bool, len(a)), make([]bool, len(b))
	length := make([][]uint16, len(a)+1)
	for i := range length {
		length[i] = make([]uint16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			inA[i], inB[j] = true, true
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return inA, inB
}

// words divides a line into words, spaces and single signs; nil for too many.
func words(line string) []string {
	if len(line) > maxLine {
		return nil
	}
	var out []string
	class := func(r rune) int {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '_':
			return 1
		case unicode.IsSpace(r):
			return 2
		}
		return 0
	}
	for i := 0; i < len(line); {
		r, size := utf8.DecodeRuneInString(line[i:])
		end := i + size
		for c := class(r); c != 0 && end < len(line); {
			next, n := utf8.DecodeRuneInString(line[end:])
			if class(next) != c {
				break
			}
			end += n
		}
		out = append(out, line[i:end])
		if len(out) > maxWords {
			return nil
		}
		i = end
	}
	if out == nil {
		out = []string{}
	}
	return out
}
