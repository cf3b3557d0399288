package localdev

import "syscall"

// childAttributes has the kernel kill a child with the thread that started it,
// and keeps a terminal's Ctrl-C from it: it is stopped in its turn.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
