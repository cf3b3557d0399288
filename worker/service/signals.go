package service

import (
	"os"
	"os/signal"
	"syscall"
)

// Reloads sends something when the worker file is to be read again: at SIGHUP,
// until it is stopped. A process that has lost its terminal is told so by SIGHUP,
// too: that is taken for a SIGTERM, once, though shell and kernel may both tell of
// it. Where SIGHUP was ignored at the start, as nohup has it, the process is to
// outlive its terminal, and reads the file again.
func Reloads() (reloads <-chan os.Signal, stop func()) {
	hangups, asked := make(chan os.Signal, 1), make(chan os.Signal, 1)
	had := !signal.Ignored(syscall.SIGHUP) && hasTerminal()
	signal.Notify(hangups, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		lost := false
		for {
			select {
			case <-done:
				return
			case s := <-hangups:
				if lost {
					continue
				}
				if lost = had && !hasTerminal(); lost {
					_ = syscall.Kill(os.Getpid(), syscall.SIGTERM) // one may always signal oneself
					continue
				}
				select {
				case asked <- s:
				default: // the one that waits will read the same
				}
			}
		}
	}()
	return asked, func() {
		signal.Stop(hangups)
		close(done)
	}
}

// hasTerminal reports whether the process has a terminal that controls it.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}
