package textfmt

import (
	"slices"
	"strings"
)

// DidYouMean is the end of a message on an unknown word: `; did you mean "x"?`
// with the known word that it is nearest to, or nothing where none is near.
func DidYouMean(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return `; did you mean "` + near + `"?`
	}
	return ""
}

// Nearest returns the known word that is most similar to the given one, or "" if none is. Of
// equally similar ones it returns the first.
func Nearest(word string, known []string) string {
	const longest = 40 // words past it are no slips, and would cost time
	if word == "" || len(word) > longest {
		return ""
	}
	best, bestDistance := "", max(1, len(word)/3)+1
	for _, k := range known {
		if k == "" || len(k) > longest {
			continue
		}
		d := distance(strings.ToLower(word), strings.ToLower(k))
		if d < bestDistance && d < len(k) {
			best, bestDistance = k, d
		}
	}
	return best
}

// Suggest is the end of a message on an unknown word: the nearest known word, or else all of them,
// if they are few.
func Suggest(word string, known []string, lead string) string {
	if s := DidYouMean(word, known); s != "" {
		return s
	}
	const most = 8
	known = slices.DeleteFunc(slices.Clone(known), func(s string) bool { return s == "" })
	switch {
	case len(known) == 0:
		return ""
	case len(known) > most:
		return "; " + lead + " " + strings.Join(known[:most], ", ") + ", ..."
	}
	return "; " + lead + " " + strings.Join(known, ", ")
}

// distance counts the insertions, deletions, substitutions and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	before, last := make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		row := make([]int, len(y)+1)
		row[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(y)]
}
