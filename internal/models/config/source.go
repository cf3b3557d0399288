package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// maxFile limits team and worker files, in bytes.
const maxFile = 1024 * 1024

// source is a file's text and its origin.
type source struct {
	file  string
	text  string
	lines []string
}

// readSource reads a YAML file, or returns the reason why it cannot be read.
func readSource(path string) (*source, *Problem) {
	if path == "" {
		return nil, &Problem{File: `""`, Message: "is not a file name; name the file"}
	}
	data, wrong := readFile(maxFile, func(flags int) (*os.File, error) { return os.OpenFile(path, flags, 0) })
	if wrong != "" {
		return nil, &Problem{File: path, Message: wrong}
	}
	return newSource(path, data)
}

// readFile reads a regular file up to one byte more than a limit, or returns the reason why it cannot be read.
func readFile(most int64, open func(flags int) (*os.File, error)) (data []byte, wrong string) {
	f, err := open(os.O_RDONLY | unix.O_NONBLOCK) // a pipe would wait for its other end
	if err != nil {
		return nil, whyUnreadable(err)
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	info, err := f.Stat()
	switch {
	case err == nil && info.IsDir():
		return nil, "is a directory; name the file in it"
	case err == nil && !info.Mode().IsRegular():
		return nil, "is not a regular file; write its content into one"
	case err == nil:
		data, err = io.ReadAll(io.LimitReader(f, most+1))
	}
	if err != nil {
		return nil, whyUnreadable(err)
	}
	return data, ""
}

func whyUnreadable(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist; check the path"
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("may not be read by user %d; it needs the right r for the file, and x for each directory above it",
			os.Geteuid())
	}
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return "cannot be read: " + err.Error()
}

// newSource checks that data is text, and splits it into lines.
func newSource(file string, data []byte) (*source, *Problem) {
	if len(data) > maxFile {
		return nil, &Problem{File: file, Message: fmt.Sprintf("is larger than %d KiB; move long instructions into an instructions_file",
			maxFile/1024)}
	}
	if bytes.HasPrefix(data, []byte{0xFF, 0xFE}) || bytes.HasPrefix(data, []byte{0xFE, 0xFF}) {
		return nil, &Problem{File: file, Message: "is UTF-16; save it as UTF-8"}
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, &Problem{File: file, Message: "is a binary file; name a file of YAML text"}
	}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(data))
	s := &source{file: file, text: text, lines: strings.Split(text, "\n")}
	for i, line := range s.lines {
		if column, what := notText(line); what != "" {
			f := s.problem(place{i + 1, column}, "", "has %s here; it must be plain UTF-8 text", what)
			return nil, &f
		}
	}
	return s, nil
}

// notText finds the first character of a line that text must not contain.
func notText(line string) (column int, what string) {
	column = 1
	for i, r := range line {
		if r == utf8.RuneError && !strings.HasPrefix(line[i:], "\uFFFD") {
			return column, fmt.Sprintf("a byte (0x%02X) that is not UTF-8", line[i])
		}
		if r == '\uFEFF' || r != '\t' && unicode.IsControl(r) {
			return column, fmt.Sprintf("a control character (U+%04X)", r)
		}
		column++
	}
	return 0, ""
}

// printable reports whether a terminal shows r as one or two columns.
func printable(r rune) bool { return r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Mn, r) }

// leadsOut reports whether an error of an [os.Root] says that a path leaves it. The package has no
// value for it.
func leadsOut(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && strings.Contains(failed.Err.Error(), "escapes")
}

// readBeside reads a text file that another one names. The path is relative to that one's directory
// and must not leave it.
func readBeside(root *os.Root, name string) (string, error) {
	var fault error
	data, wrong := readFile(spec.MaxInstructions, func(flags int) (f *os.File, err error) {
		f, fault = root.OpenFile(name, flags, 0)
		return f, fault
	})
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	switch {
	case leadsOut(fault):
		wrong = "leads out of this file's directory; keep it inside"
	case wrong != "":
	case len(data) > spec.MaxInstructions:
		wrong = fmt.Sprintf("is larger than %d KiB", spec.MaxInstructions/1024)
	case len(bytes.TrimSpace(data)) == 0:
		wrong = "is empty; write the instructions into it"
	case !utf8.Valid(data) || bytes.ContainsRune(data, 0):
		wrong = "is not UTF-8 text"
	}
	if wrong != "" {
		return "", fmt.Errorf("%q %s", name, wrong)
	}
	return string(data), nil
}
