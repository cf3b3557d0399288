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
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/workerpool"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func newBreaker(a *app) *cobra.Command {
	return group("breaker", "Show and set the circuit breakers of agents",
		newBreakerList(a), newBreakerShow(a), newBreakerTrip(a), newBreakerReset(a))
}

func newBreakerList(a *app) *cobra.Command {
	return a.addSessionFlags(&cobra.Command{
		Use:   "list",
		Short: "List the store's breakers",
		Long:  "List the store's breakers: those that have counted something, and the others that workers define.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return report(cmd.Context(), a, a.here(a.storeBase), httpapi.ListBreakers, httpapi.None{}, a.writeBreakers)
		},
	})
}

func newBreakerShow(a *app) *cobra.Command {
	return a.addSessionFlags(&cobra.Command{
		Use:   "show NAME",
		Short: "Show a breaker: its state, since when, until when and why",
		Long:  "Show a breaker.",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := report(cmd.Context(), a, a.here(a.storeBase), httpapi.ReadBreaker, httpapi.OfName{Name: args[0]}, a.writeBreaker)
			return explainBreaker(err)
		},
	})
}

func newBreakerTrip(a *app) *cobra.Command {
	var in control.Trip
	var lasting time.Duration
	cmd := &cobra.Command{
		Use:   "trip NAME --why TEXT",
		Short: "Open a breaker manually: rounds of its agents wait",
		Long: "Open a breaker manually. Running rounds continue; new rounds of its agents wait and cost nothing. " +
			"It stays open for the duration of --for, or until `maestro breaker reset`.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if lasting == 0 && cmd.Flags().Changed("for") {
				return usagef("--for: %s is not positive; omit it to keep the breaker open until it is reset", lasting)
			}
			in.For = textfmt.Duration(lasting)
			return setBreaker(cmd.Context(), a, httpapi.TripBreaker, args[0], in)
		},
	}
	cmd.Flags().StringVar(&in.Why, "why", "", "the reason, shown where sessions wait")
	cmd.Flags().DurationVar(&lasting, "for", 0, "how long, like 1h (default: until the breaker is reset)")
	return a.addSessionFlags(cmd)
}

func newBreakerReset(a *app) *cobra.Command {
	var in control.Reset
	cmd := &cobra.Command{
		Use:   "reset NAME",
		Short: "Close a breaker manually: rounds of its agents continue",
		Long:  "Close a breaker manually and reset its failure count.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return setBreaker(cmd.Context(), a, httpapi.ResetBreaker, args[0], in)
		},
	}
	cmd.Flags().StringVar(&in.Why, "why", "", "the reason")
	return a.addSessionFlags(cmd)
}

// setBreaker changes a breaker, and shows it.
func setBreaker[B any](ctx context.Context, a *app, o httpapi.Operation[httpapi.NameBody[B], workerpool.Breaker], name string,
	body B,
) error {
	in := httpapi.NameBody[B]{Name: name, Body: body}
	return explainBreaker(report(ctx, a, a.here(a.storeBase), o, in, a.writeBreaker))
}

func (a *app) writeBreakers(doc control.BreakerList) {
	if len(doc.Breakers) == 0 {
		a.printErr("no breakers yet; each agent of a worker has one once the worker has started")
		return
	}
	t := a.table("BREAKER", "STATE", "FAILURES", "UNTIL", "AGENTS", "")
	for _, b := range doc.Breakers {
		why := ""
		if b.State != session.BreakerClosed {
			why = b.Because()
		}
		t.Add(b.Name, terminal.Painted(string(b.State), breakerColour(b.State)), b.Failures, terminal.Moment(b.OpenUntil),
			terminal.Dash(strings.Join(b.Agents, ", ")), terminal.Painted(why, terminal.Dim))
	}
	a.writeFitted(t)
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

func (a *app) writeBreaker(b workerpool.Breaker) {
	p := a.palette
	a.print("%s  %s", p.Paint(terminal.Bold, b.Name), p.Paint(breakerColour(b.State), string(b.State)))
	if b.State != session.BreakerClosed {
		a.print("%s", safetext.Line(b.Because()))
		switch {
		case b.OpenUntil == nil:
			a.print("open until it is reset")
		case b.State == session.BreakerIsOpen:
			a.print("open until %s (%s left)", terminal.Moment(b.OpenUntil), terminal.Span(b.OpenUntil.Sub(a.env.Now())))
		default:
			a.print("cooldown over since %s; probes running: %d of %d", terminal.Moment(b.OpenUntil), len(b.Probes), b.Settings.Probes)
		}
	} else if b.LastFailure != nil && b.Failures > 0 {
		a.print("last failure: %s: %s", b.LastFailure.Category, safetext.Line(b.LastFailure.Message))
	}
	if b.ChangedBy != "" {
		a.print("last changed by %s%s", safetext.Line(b.ChangedBy), reason(b.Why))
	}
	a.print("")
	a.print("consecutive failures  %d of %d", b.Failures, b.Settings.Threshold)
	a.print("consecutive openings  %d", b.Trips)
	a.print("cooldown              %s, at most %s", b.Settings.Cooldown, b.Settings.MaxCooldown)
	a.print("agents                %s", terminal.Dash(strings.Join(b.Agents, ", ")))
	if !b.ChangedAt.IsZero() {
		a.print("changed               %s, generation %d", terminal.Moment(&b.ChangedAt), b.Generation)
	}
}

func reason(why string) string {
	if why == "" {
		return ""
	}
	return ": " + safetext.Line(why)
}

// explainBreaker adds a remedy to an error.
func explainBreaker(err error) error {
	failed, ok := errors.AsType[*control.Error](err)
	switch {
	case !ok:
		return err
	case failed.Kind == control.NotFound:
		return usagef("%w; `maestro breaker list` shows all", err)
	}
	return inputError(err)
}
