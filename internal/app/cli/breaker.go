package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/workerpool"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func newBreaker(a *app) *cobra.Command {
	return group("breaker", "Show and set the circuit breakers of agents",
		newBreakerList(a), newBreakerShow(a), newBreakerTrip(a), newBreakerReset(a))
}

// breakerCommand is the commands on breakers.
type breakerCommand struct {
	*console
	*connector
	env Env
}

func breakerCommandOf(a *app) breakerCommand { return breakerCommand{a.console, a.connector, a.env} }

func newBreakerList(a *app) *cobra.Command {
	c := breakerCommandOf(a)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the store's breakers",
		Long: "List the store's breakers: those with state in Temporal, and the others that workers define. " +
			"If Temporal cannot be reached, the store's copy is shown.",
		Args: cmdline.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.list(cmd.Context()) },
	}
	a.addSessionFlags(cmd)
	return cmd
}

func newBreakerShow(a *app) *cobra.Command {
	c := breakerCommandOf(a)
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a breaker: its state, since when, until when and why",
		Long:  "Show a breaker. This needs no worker. If Temporal cannot be reached, the store's copy is shown.",
		Args:  cmdline.Arguments(1, 1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.show(cmd.Context(), args[0]) },
	}
	a.addSessionFlags(cmd)
	return cmd
}

func newBreakerTrip(a *app) *cobra.Command {
	c := breakerCommandOf(a)
	var why string
	var lasting time.Duration
	cmd := &cobra.Command{
		Use:   "trip NAME --why TEXT",
		Short: "Open a breaker manually: rounds of its agents wait",
		Long: "Open a breaker manually. Running rounds continue; new rounds of its agents wait and cost nothing. " +
			"It stays open for the duration of --for, or until `maestro breaker reset`. A worker must be running.",
		Args: cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lasting == 0 && cmd.Flags().Changed("for") {
				return usagef("--for: %s is not positive; omit it to keep the breaker open until it is reset", lasting)
			}
			return c.set(cmd.Context(), args[0], func(p control.Pool) (workerpool.Breaker, error) {
				return p.Trip(cmd.Context(), args[0], control.Trip{Why: why, For: textfmt.Duration(lasting)})
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "the reason, shown where sessions wait")
	cmd.Flags().DurationVar(&lasting, "for", 0, "how long, like 1h (default: until the breaker is reset)")
	a.addSessionFlags(cmd)
	return cmd
}

func newBreakerReset(a *app) *cobra.Command {
	c := breakerCommandOf(a)
	var why string
	cmd := &cobra.Command{
		Use:   "reset NAME",
		Short: "Close a breaker manually: rounds of its agents continue",
		Long:  "Close a breaker manually and reset its failure count. A worker must be running.",
		Args:  cmdline.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.set(cmd.Context(), args[0], func(p control.Pool) (workerpool.Breaker, error) {
				return p.Reset(cmd.Context(), args[0], control.Reset{Why: why})
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "the reason")
	a.addSessionFlags(cmd)
	return cmd
}

// pool is the store's breakers for a command that changes nothing. Without Temporal, it prints a
// message. The returned function ends it.
func (c *breakerCommand) pool(ctx context.Context) (control.Pool, func(), error) {
	s, err := c.openStore()
	if err != nil {
		return control.Pool{}, nil, err
	}
	conn, err := c.dialToLook(ctx, "showing the store's copy")
	if err != nil {
		return control.Pool{}, nil, err
	}
	done := func() {
		if conn != nil {
			conn.Close()
		}
	}
	return control.Pool{Base: c.base(conn, s, "")}, done, nil
}

func (c *breakerCommand) list(ctx context.Context) error {
	pool, done, err := c.pool(ctx)
	if err != nil {
		return err
	}
	defer done()
	known, err := pool.Breakers(ctx)
	if err != nil {
		return err
	}
	return c.result(known, func() { c.writeList(known.Breakers) })
}

func (c *breakerCommand) writeList(known []workerpool.Breaker) {
	if len(known) == 0 {
		c.printErr("no breakers yet; each agent of a worker has one once the worker has started")
		return
	}
	t := c.table("BREAKER", "STATE", "FAILURES", "UNTIL", "AGENTS", "")
	for _, b := range known {
		why := ""
		if b.State != session.BreakerClosed {
			why = b.Because()
		}
		t.Add(b.Name, terminal.Painted(string(b.State), breakerColour(b.State)), b.Failures, terminal.Moment(b.OpenUntil),
			terminal.Dash(strings.Join(b.Agents, ", ")), terminal.Painted(why, terminal.Dim))
	}
	c.writeFitted(t)
}

func breakerColour(s session.BreakerState) terminal.Colour {
	switch s {
	case session.BreakerIsOpen:
		return terminal.Red
	case session.BreakerHalfOpen:
		return terminal.Yellow
	case session.BreakerClosed:
	}
	return terminal.Green
}

func (c *breakerCommand) show(ctx context.Context, name string) error {
	pool, done, err := c.pool(ctx)
	if err != nil {
		return err
	}
	defer done()
	b, err := pool.Breaker(ctx, name)
	if err != nil {
		return explainBreaker(name, err)
	}
	return c.describeBreaker(b)
}

// describeBreaker shows one breaker.
func (c *breakerCommand) describeBreaker(b workerpool.Breaker) error {
	if c.output == outputJSON {
		return c.printJSON(b)
	}
	p := c.palette
	c.print("%s  %s", p.Paint(terminal.Bold, b.Name), p.Paint(breakerColour(b.State), string(b.State)))
	if b.State != session.BreakerClosed {
		c.print("%s", safetext.Line(b.Because()))
		switch {
		case b.OpenUntil == nil:
			c.print("open until it is reset")
		case b.State == session.BreakerIsOpen:
			c.print("open until %s (%s left)", terminal.Moment(b.OpenUntil), terminal.Span(b.OpenUntil.Sub(c.env.Now())))
		default:
			c.print("cooldown over since %s; probes running: %d of %d", terminal.Moment(b.OpenUntil), len(b.Probes), b.Settings.Probes)
		}
	} else if b.LastFailure != nil && b.Failures > 0 {
		c.print("last failure: %s: %s", b.LastFailure.Category, safetext.Line(b.LastFailure.Message))
	}
	if b.ChangedBy != "" {
		c.print("last changed by %s%s", safetext.Line(b.ChangedBy), reason(b.Why))
	}
	c.print("")
	c.print("consecutive failures  %d of %d", b.Failures, b.Settings.Threshold)
	c.print("consecutive openings  %d", b.Trips)
	c.print("cooldown              %s, at most %s", b.Settings.Cooldown, b.Settings.MaxCooldown)
	c.print("agents                %s", terminal.Dash(strings.Join(b.Agents, ", ")))
	if !b.ChangedAt.IsZero() {
		c.print("changed               %s, generation %d", terminal.Moment(&b.ChangedAt), b.Generation)
	}
	return nil
}

func reason(why string) string {
	if why == "" {
		return ""
	}
	return ": " + safetext.Line(why)
}

// set changes a breaker, and shows it.
func (c *breakerCommand) set(ctx context.Context, name string, change func(control.Pool) (workerpool.Breaker, error)) error {
	s, conn, err := c.storeAndTemporal(ctx, c.openStore)
	if err != nil {
		return err
	}
	defer conn.Close()
	b, err := change(control.Pool{Base: c.base(conn, s, conn.Namespace)})
	if err != nil {
		return explainBreaker(name, err)
	}
	return c.describeBreaker(b)
}

// explainBreaker adds a remedy to an error.
func explainBreaker(name string, err error) error {
	var failed *control.Error
	switch {
	case !errors.As(err, &failed):
		return err
	case failed.Kind == control.NotFound:
		return usagef("%w; `maestro breaker list` shows all", err)
	case failed.Kind == control.Unavailable:
		return failf("%w; start a worker with `maestro worker`, and check with `maestro breaker show %s` before you try again", err, name)
	case failed.Kind == control.Invalid && failed.Field == "name":
		return usagef("%w", err)
	}
	return inputError(err)
}
