package session

import (
	"fmt"

	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Disk is the file system that agents work on.
type Disk struct {
	// Free and FreeFiles are how many bytes and files it still has room for.
	Free, FreeFiles int64
	// Low and LowFiles are below what it counts as full; zero: never.
	Low, LowFiles int64
	// Full: something has just found no room, whatever is free by now.
	Full bool
	// MaxWritten and MaxWrittenFiles are how many bytes and files one attempt may have written on
	// it; zero: any.
	MaxWritten, MaxWrittenFiles int64
}

// Written is what an attempt has written that is still there.
type Written struct {
	// Bytes is the room that it takes up, Files how many files and directories it is.
	Bytes, Files int64
	// Hidden: there may be more, because a directory could not be read or is too deep, or because
	// removed files are only mapped or in transit between processes.
	Hidden bool
}

// IsLow reports whether the disk counts as full.
func (d Disk) IsLow() bool { return d.Free < d.Low || d.FreeFiles < d.LowFiles }

// MayExceed reports whether an attempt that had written something before may have filled the disk
// since, or passed its limits, if it was who has taken what is not free any more.
func (d Disk) MayExceed(before Disk, had Written) bool {
	return d.IsLow() || before.Free-d.Free > d.MaxWritten-had.Bytes ||
		d.MaxWrittenFiles > 0 && before.FreeFiles-d.FreeFiles > d.MaxWrittenFiles-had.Files
}

// FilledBy says that whoever has written so much has filled the disk, or has passed its
// limit; empty: neither. Who has written little on a full disk has not filled it, nor has
// who has written less than there is room for.
func (d Disk) FilledBy(w Written) string {
	switch {
	case d.MaxWritten > 0 && w.Bytes > d.MaxWritten:
		return fmt.Sprintf("exceeds limits.disk_bytes: its tree, HOME and TMPDIR use %s; at most %s are allowed",
			textfmt.Size(w.Bytes), textfmt.Size(d.MaxWritten))
	case d.MaxWrittenFiles > 0 && w.Files > d.MaxWrittenFiles:
		return fmt.Sprintf("exceeds limits.disk_files: its tree, HOME and TMPDIR have %d files; at most %d are allowed", w.Files, d.MaxWrittenFiles)
	case d.filled(d.Free, d.Low, w.Bytes, w.Hidden):
		return fmt.Sprintf("filled the disk: its tree, HOME and TMPDIR use %s, and %s are free", textfmt.Size(w.Bytes), textfmt.Size(d.Free))
	case d.filled(d.FreeFiles, d.LowFiles, w.Files, w.Hidden):
		return fmt.Sprintf("filled the disk: its tree, HOME and TMPDIR have %d files, and %d more are possible", w.Files, d.FreeFiles)
	}
	return ""
}

// HiddenBy returns why an attempt with files that cannot be measured exceeds its limit: the disk has lost more than
// the limit since the attempt started. Empty: it does not. Other processes may have written that; it cannot be told apart.
func (d Disk) HiddenBy(w Written, start Disk) string {
	switch {
	case !w.Hidden:
	case d.MaxWritten > 0 && start.Free-d.Free > d.MaxWritten:
		return fmt.Sprintf("exceeds limits.disk_bytes: it hides files from measuring, and the disk has %s less than at its start; at most %s are allowed",
			textfmt.Size(start.Free-d.Free), textfmt.Size(d.MaxWritten))
	case d.MaxWrittenFiles > 0 && start.FreeFiles-d.FreeFiles > d.MaxWrittenFiles:
		return fmt.Sprintf("exceeds limits.disk_files: it hides files from measuring, and the disk has %d more than at its start; at most %d are allowed",
			start.FreeFiles-d.FreeFiles, d.MaxWrittenFiles)
	}
	return ""
}

func (d Disk) filled(free, low, written int64, hidden bool) bool {
	return (free < low || d.Full && low > 0 && free <= written) && (written >= low || hidden)
}
