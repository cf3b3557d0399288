package cli

import (
	"cmp"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

func newList(a *app) *cobra.Command {
	var in control.SessionFilter
	var status, since string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List sessions, newest first",
		Long: "List the sessions in Temporal, and those that only the store still has. " +
			"If Temporal cannot be reached, only the store is listed.",
		Example: "  maestro list --team web --status help_needed\n  maestro list --since 7d --limit 20",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			in.Status = session.State(status)
			if in.Since, err = parseStart(since, a.now()); err != nil {
				return err
			}
			if err := in.Check(); err != nil {
				return inputError(err)
			}
			return inputError(report(cmd.Context(), a, a.served(a.shownBase), httpapi.ListSessions, in,
				func(doc control.SessionList) {
					a.writeSessions(doc, in.All())
				}))
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&in.Limit, "limit", 50, "maximum number of sessions")
	flags.StringVar(&in.Team, "team", "", "only sessions of this team")
	flags.StringVar(&status, "status", "", "only sessions in this state: "+strings.Join(words(control.States()), ", "))
	flags.StringArrayVar(&in.Labels, "label", nil, "only sessions with this label, KEY=VALUE; may be given several times")
	flags.StringVar(&since, "since", "", "only sessions started since a date, like 2026-11-21, or within a duration, like 7d or 12h")
	flags.StringVar(&in.Cursor, "cursor", "", "continue after the page that ended with this cursor")
	return a.addServedFlags(cmd)
}

func (a *app) writeSessions(doc control.SessionList, all bool) {
	switch {
	case len(doc.Sessions) == 0 && !all:
		a.printErr("no session matches")
		return
	case len(doc.Sessions) == 0:
		a.printErr("no sessions yet; start one with `maestro run TEAM TEXT`")
		return
	}
	t := a.table("SESSION", "TEAM", "STATE", "PHASE", "TOKENS", "USD", "STARTED", "TOOK", "REQUIREMENT")
	for _, l := range doc.Sessions {
		took := ""
		if l.StartedAt != nil && l.ClosedAt != nil {
			took = terminal.Span(l.ClosedAt.Sub(*l.StartedAt))
		}
		state := string(l.Status)
		if !l.Temporal {
			state += " (store only)"
		}
		t.Add(l.Session, terminal.Dash(l.Team), terminal.Painted(state, terminal.StateColour(l.Status)), strings.Join(l.Phases, ", "),
			terminal.Number(l.Tokens), terminal.Dollars(l.CostUSD), terminal.Moment(l.StartedAt), took,
			terminal.Painted(safetext.Line(l.Requirement), terminal.Dim))
	}
	a.writeFitted(t, "TOOK", "TOKENS", "PHASE", "TEAM")
	waiting := 0
	for _, l := range doc.Sessions {
		if l.Status == session.HelpIsNeeded || l.Status == session.AwaitingApproval {
			waiting++
		}
	}
	if waiting > 0 {
		a.printErr("%s open: `%s`", terminal.Verbed(waiting, "session", "waits", "wait"), a.commandLine("inbox"))
	}
	if doc.More {
		a.printErr("more: --cursor %s", doc.Cursor)
	}
}

// parseStart reads a moment: a date by UTC, a time, or how long ago it was.
func parseStart(since string, now time.Time) (time.Time, error) {
	if since == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, since); err == nil {
			return t, nil
		}
	}
	ago, err := parseAgo(since)
	if err != nil {
		return time.Time{}, usagef("--since: %q is neither a date like 2026-11-21 nor a duration like 7d, 12h or 1d12h",
			textfmt.Shorten(since, 80))
	}
	return now.Add(-ago), nil
}

var daysPattern = regexp.MustCompile(`^([0-9]{1,5})d(.*)$`)

// parseAgo reads a time before now: days, a duration, or both.
func parseAgo(since string) (time.Duration, error) {
	rest, ago := since, time.Duration(0)
	if m := daysPattern.FindStringSubmatch(since); m != nil {
		days, _ := strconv.Atoi(m[1])
		rest, ago = cmp.Or(m[2], "0s"), time.Duration(days)*24*time.Hour
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, err
	}
	if ago+d <= 0 {
		return 0, errors.New("it is not in the past")
	}
	return ago + d, nil
}
