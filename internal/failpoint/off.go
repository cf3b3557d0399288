//go:build !failpoints

package failpoint

import "io"

// Here is the failpoint of this name.
func Here(string) {}

// Torn is the failpoint in the middle of writing data to w, for the file that
// is to be at path.
func Torn(string, io.Writer, []byte) {}
