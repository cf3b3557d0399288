package caches

import (
	"io/fs"
	"syscall"
	"time"
)

// lastUse is when a file was last read or changed, as far as its file system notes it.
func lastUse(info fs.FileInfo) time.Time {
	last := info.ModTime()
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return last
	}
	if at := time.Unix(st.Ctim.Unix()); at.After(last) {
		last = at
	}
	if at := time.Unix(st.Atim.Unix()); at.After(last) && !info.IsDir() { // measuring reads directories
		last = at
	}
	return last
}
