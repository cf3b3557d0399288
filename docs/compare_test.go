package docs_test

import (
	"regexp"
	"strings"
)

// varying is what differs from one run to the next, and the word that stands for
// it in both what a page shows and what was printed.
var varying = []struct {
	what *regexp.Regexp
	word string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?`), "DATE"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b(\d+h ?)?(\d+m ?)?\d+(\.\d+)?(ms|µs|s)\b`), "DURATION"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UUID"},
	{regexp.MustCompile(`\b([0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{12})\b`), "DIGEST"},
	{regexp.MustCompile(`go1\.\d+(\.\d+)?`), "GO"},
	{regexp.MustCompile(`  +`), " "}, // columns are as wide as what stands in them
	{regexp.MustCompile(`(?m) +$`), ""},
}

// normal is text without what differs from one run to the next: times of day,
// dates, durations below an hour that name seconds, digests, ids of runs, Go's
// version, and how wide columns are.
func normal(text string) string {
	for _, v := range varying {
		text = v.what.ReplaceAllString(text, v.word)
	}
	return text
}

// shows reports whether what was printed is what the lines of a page show. With more,
// it may continue past them. Empty lines at the end are for the eye.
func shows(lines []string, printed string, more bool) bool {
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for _, line := range lines {
		if strings.TrimSpace(line) == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(normal(line), "…")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		pattern.WriteString(strings.Join(parts, `.*`) + `\n`)
	}
	if !more {
		pattern.WriteString(`\z`)
	}
	printed = normal(printed)
	if !more {
		printed = strings.TrimRight(printed, "\n") + "\n"
	}
	return regexp.MustCompile(pattern.String()).MatchString(printed)
}
