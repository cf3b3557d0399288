// Command maestro-server is a complete Temporal service in one process: frontend, history, matching and system
// workers on SQLite, with Temporal's Web UI. It takes the arguments of `temporal server start-dev`, so the Go SDK's
// testsuite.StartDevServer can start it, too.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/maestro-hive/maestro/server/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
