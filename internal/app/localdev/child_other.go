//go:build !linux

package localdev

import "syscall"

// childAttributes keeps a terminal's Ctrl-C from a child: it is stopped in its
// turn.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
