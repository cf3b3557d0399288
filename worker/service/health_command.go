package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/platform/cmdline"
)

// HealthPortVariable names the variable with the default of --health-port.
const HealthPortVariable = "MAESTRO_HEALTH_PORT"

// HealthPortUsage is the help of --health-port.
const HealthPortUsage = "port to serve " + HealthPath + " and " + ReadyPath +
	" on, on all interfaces; 0: a free port (default $" + HealthPortVariable + ", else none)"

// HealthPort returns the port of a flag or the environment; ok is false if neither
// has one.
func HealthPort(flag string, getenv func(string) string) (port int, ok bool, err error) {
	value, source := flag, "--health-port"
	if value == "" {
		value, source = getenv(HealthPortVariable), HealthPortVariable
	}
	if value == "" {
		return 0, false, nil
	}
	port, err = strconv.Atoi(value)
	if err != nil || port < 0 || port > 65535 {
		return 0, false, fmt.Errorf("%s: %q is not a port; use 0 to 65535", source, value)
	}
	return port, true, nil
}

// readyTimeout is the timeout of a readiness request.
const readyTimeout = 2 * time.Second

// answerSize bounds how much of an answer is read, in bytes.
const answerSize = 64 << 10

// ErrNotReady means that the worker on this host takes no work.
var ErrNotReady = errors.New("not ready")

// newHealth returns the command that checks whether the worker on this host is
// ready.
func (p Process) newHealth() *cobra.Command {
	var flag string
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether the worker on this host is ready",
		Long: "Check whether the worker on this host (127.0.0.1) is ready. The exit code is 0 if it is,\n" +
			"else 1 with the reasons. For container health checks; takes at most two seconds.",
		Args: cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			port, ok, err := HealthPort(flag, p.Getenv)
			if err != nil {
				return err
			}
			if !ok || port == 0 {
				return fmt.Errorf("missing port; give the worker's with --health-port or %s", HealthPortVariable)
			}
			return checkReady(cmd.Context(), port)
		},
	}
	cmd.Flags().StringVar(&flag, "health-port", "", "the worker's --health-port (default $"+HealthPortVariable+")")
	return cmd
}

// checkReady returns nil if the worker on a port of this host is ready.
func checkReady(ctx context.Context, port int) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	url := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + ReadyPath
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request) // without a proxy
	if err != nil {
		return fmt.Errorf("%w: %s does not answer: %w", ErrNotReady, url, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(answer.Body, answerSize)) // a part of the answer is enough for the message
	return fmt.Errorf("%w: %s: %s", ErrNotReady, answer.Status, strings.TrimSpace(string(said)))
}
