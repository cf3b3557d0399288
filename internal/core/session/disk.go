package session

import (
	"fmt"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Disk is the state of the file system on which agents work.
type Disk struct {
	// Free and FreeFiles are how many bytes and files fit on it.
	Free, FreeFiles int64
	// Low and LowFiles: with fewer free, the disk counts as full; zero: it never does.
	Low, LowFiles int64
	// Freed is how often it was full and space was freed on it.
	Freed int64
	// Full: a write has just failed for lack of space, whatever is free now.
	Full bool
	// MaxWritten and MaxWrittenFiles are how many bytes and files one attempt may write; zero: no
	// limit.
	MaxWritten, MaxWrittenFiles int64
}

// Written is what an attempt has written and not removed.
type Written struct {
	// Bytes is the disk space in use, Files the number of files and directories.
	Bytes, Files int64
	// Hidden: there may be more, because a directory could not be read or is too deep, or because
	// removed files are only mapped or in transit between processes.
	Hidden bool
}

// IsLow reports whether space has to be freed.
func (d Disk) IsLow() bool { return d.Free < d.Low || d.FreeFiles < d.LowFiles }

// fullPart is how small a part of Low is nothing.
const fullPart = 16

// IsFull reports whether so little is free that programs fail for lack of space.
func (d Disk) IsFull() bool {
	return d.Full || d.Free < d.Low/fullPart || d.FreeFiles < d.LowFiles/fullPart
}

// MayExceed reports whether an attempt may have filled the disk or passed its limits since an earlier
// measurement, when the disk was before and the attempt had written had. It assumes that the attempt
// has used all the space that is no longer free.
func (d Disk) MayExceed(before Disk, had Written) bool {
	return d.IsLow() || before.Free-d.Free > d.MaxWritten-had.Bytes ||
		d.MaxWrittenFiles > 0 && before.FreeFiles-d.FreeFiles > d.MaxWrittenFiles-had.Files
}

// FilledBy describes that an attempt which has written so much has filled the disk, or has passed
// its limit; empty: neither. An attempt has not filled a full disk if it has written little, or
// less than is free. What it hides counts only if the disk has lost much since start, the disk when the
// attempt started; zero: unknown.
func (d Disk) FilledBy(w Written, start Disk) string {
	w.Hidden = w.Hidden && (start == Disk{} || d.hasLost(start))
	switch {
	case d.MaxWritten > 0 && w.Bytes > d.MaxWritten:
		return fmt.Sprintf("exceeds limits.disk_bytes: its tree, HOME and TMPDIR use %s; at most %s are allowed",
			textfmt.Size(w.Bytes), textfmt.Size(d.MaxWritten))
	case d.MaxWrittenFiles > 0 && w.Files > d.MaxWrittenFiles:
		return fmt.Sprintf("exceeds limits.disk_files: its tree, HOME and TMPDIR have %d files; at most %d are allowed", w.Files,
			d.MaxWrittenFiles)
	case d.filled(d.Free, d.Low, w.Bytes, w.Hidden):
		return fmt.Sprintf("filled the disk: its tree, HOME and TMPDIR use %s, and %s are free", textfmt.Size(w.Bytes),
			textfmt.Size(d.Free))
	case d.filled(d.FreeFiles, d.LowFiles, w.Files, w.Hidden):
		return fmt.Sprintf("filled the disk: its tree, HOME and TMPDIR have %d files, and %d more are possible", w.Files, d.FreeFiles)
	}
	return ""
}

// hasLost reports whether the disk has lost much since a start.
func (d Disk) hasLost(start Disk) bool {
	return d.Low > 0 && start.Free-d.Free >= d.Low || d.LowFiles > 0 && start.FreeFiles-d.FreeFiles >= d.LowFiles
}

// HiddenBy returns why an attempt with files that cannot be measured exceeds its limit: the disk has lost more than
// the limit since the attempt started. Empty: it does not. Other processes may have written that; it cannot be told apart.
func (d Disk) HiddenBy(w Written, start Disk) string {
	switch {
	case !w.Hidden:
	case d.MaxWritten > 0 && start.Free-d.Free > d.MaxWritten:
		return fmt.Sprintf("exceeds limits.disk_bytes: it hides files from measuring, and the disk has %s less than at its start; at "+
			"most %s are allowed",
			textfmt.Size(start.Free-d.Free), textfmt.Size(d.MaxWritten))
	case d.MaxWrittenFiles > 0 && start.FreeFiles-d.FreeFiles > d.MaxWrittenFiles:
		return fmt.Sprintf("exceeds limits.disk_files: it hides files from measuring, and the disk has %d more than at its start; at "+
			"most %d are allowed",
			start.FreeFiles-d.FreeFiles, d.MaxWrittenFiles)
	}
	return ""
}

func (d Disk) filled(free, low, written int64, hidden bool) bool {
	return (free < low || d.Full && low > 0 && free <= written) && (written >= low || hidden)
}
