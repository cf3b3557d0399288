package spec

import (
	"fmt"
	"regexp"
)

var (
	// classPattern is a choice of characters, like [abc], [a-z] or [!0-9].
	classPattern = regexp.MustCompile(`\[[!^]?(?:[^][{}/!^-](?:-[^][{}/!^-])?)+\]`)
	rangePattern = regexp.MustCompile(`(.)-(.)`)
)

// EmptyRange describes the error in a file pattern that has an empty range like [z-a]; empty for
// other patterns. A schema cannot express it.
func EmptyRange(pattern string) string {
	for _, class := range classPattern.FindAllString(pattern, -1) {
		for _, ends := range rangePattern.FindAllStringSubmatch(class, -1) {
			if ends[1] > ends[2] {
				return fmt.Sprintf("%q has the range %s, which holds nothing; write %s-%s", pattern, ends[0], ends[2], ends[1])
			}
		}
	}
	return ""
}
