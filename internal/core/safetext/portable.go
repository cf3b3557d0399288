package safetext

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// reservedName matches the names that Windows takes for devices, also before a dot.
var reservedName = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³]) *(\.|$)`)

// escaped matches what [Portable] could have written.
var escaped = regexp.MustCompile(`^%[0-9A-Fa-f]{2}`)

// Portable is the slash-separated path of a file in an archive or of a download, with names that
// each system takes for names of files. Windows takes others for drives, directories, streams and
// devices. It percent-encodes invisible characters, \:*?"<>|, a dot or a space at the end of a name, the
// first letter of a device's name, and the % of what looks like percent-encoding: so different paths
// stay different. The names . and .. are kept, for targets of links.
func Portable(path string) string {
	names := strings.Split(path, "/")
	for i, name := range names {
		if name != "." && name != ".." {
			names[i] = portable(name)
		}
	}
	return strings.Join(names, "/")
}

func portable(name string) string {
	var b strings.Builder
	device, end := reservedName.MatchString(name), len(strings.TrimRight(name, ". "))
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		switch {
		case i == 0 && device, i == len(name)-1 && i >= end, r == utf8.RuneError && size == 1, r != ' ' && hidden(r),
			strings.ContainsRune(`\:*?"<>|`, r), escaped.MatchString(name[i:]):
			for _, c := range []byte(name[i : i+size]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		default:
			b.WriteString(name[i : i+size])
		}
		i += size
	}
	return b.String()
}
