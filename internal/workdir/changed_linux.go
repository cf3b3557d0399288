package workdir

import "syscall"

// changed is when a file was last changed, in nanoseconds.
func changed(st *syscall.Stat_t) int64 { return syscall.TimespecToNsec(st.Ctim) }
