// Command maestro is the command line of Maestro.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/app/cli"
)

func main() {
	cli.Shim()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	executable, _ := os.Executable()
	dir, _ := os.Getwd()
	host, _ := os.Hostname()
	os.Exit(cli.Execute(ctx, cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, IsTerminal: cli.IsTerminal, Width: cli.Width,
		Environ: os.Environ(), Executable: executable, Dir: dir, Host: host, PID: os.Getpid(),
		Harden: cli.Harden, Now: time.Now,
	}))
}
