package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/worker/service"
)

func newWorker(a *app) *cobra.Command {
	cmd := service.NewCommand(service.Process{
		Stderr: a.env.Stderr, Env: a.environ, Host: a.env.Host, PID: a.env.PID, Now: a.env.Now,
	})
	serve := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.env.harden(); err != nil {
			return err
		}
		return workerError(serve(cmd, args))
	}
	for _, sub := range cmd.Commands() {
		ask := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error { return workerError(ask(cmd, args)) }
	}
	return cmd
}

// workerError is the error of a worker with its exit code. A failed start is an error of
// usage or input, unless Temporal is the cause.
func workerError(err error) error {
	if err == nil || exitCode(err) != exitFailed || errors.Is(err, service.ErrServing) || errors.Is(err, service.ErrNotReady) {
		return err
	}
	return &codeError{exitUsage, err}
}
