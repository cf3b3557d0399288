package service

import (
	"os"
	"os/signal"
	"syscall"
)

// Reloads returns a channel that gets a value at each SIGHUP, when the worker file must be
// reloaded, until it is stopped. A process that has lost its terminal also gets SIGHUP,
// maybe from both shell and kernel: then it sends itself SIGTERM once instead. If SIGHUP was
// ignored at the start, as with nohup, the process must outlive its terminal, and SIGHUP
// always reloads.
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
					_ = syscall.Kill(os.Getpid(), syscall.SIGTERM) // signals to this process are always permitted
					continue
				}
				select {
				case asked <- s:
				default: // a reload is pending already
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
