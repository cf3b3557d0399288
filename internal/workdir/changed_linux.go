package workdir

import "syscall"

// changeTime returns when a file was last changed, in nanoseconds.
func changeTime(st *syscall.Stat_t) int64 { return syscall.TimespecToNsec(st.Ctim) }
