// Package failpoint lets tests kill a process between two lines of it. A
// failpoint costs nothing and does nothing, except in programs that are built
// with the tag failpoints, as the system tests build theirs, and where the
// simulator observes it.
package failpoint
