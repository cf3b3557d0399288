package cli

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/budget"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/ops/usage"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
)

// usageDocument is the document of `usage -o json`.
type usageDocument struct {
	// Session is the requested one; empty: all.
	Session string `json:"session,omitempty"`
	// Since is the first day that counts, by UTC; empty: all do.
	Since string `json:"since,omitempty"`
	// By are the rows' keys.
	By []string `json:"by"`
	control.Usage
}

// usageCommand is `usage`.
type usageCommand struct {
	*console
	*connector
	doc usageDocument
	// labels select sessions.
	labels []string
}

func newUsage(a *app) *cobra.Command {
	c := usageCommand{console: a.console, connector: a.connector}
	var since, by string
	cmd := &cobra.Command{
		Use:   "usage [SESSION]",
		Short: "Show what sessions have cost",
		Long: "Show the cost of a session by phase and persona, or of all sessions of the store, newest first. " +
			"A call counts on the UTC day on which its cost became known. UNSETTLED is an estimate and not part of other columns.",
		Args: cmdline.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.doc.Session = strings.Join(args, "")
			var err error
			if c.doc.By, err = parseBy(by, c.doc.Session != ""); err != nil {
				return err
			}
			if c.doc.Since, err = parseSince(since, c.now()); err != nil {
				return err
			}
			if _, err = control.ParseLabels(c.labels); err != nil {
				return inputError(err)
			}
			if c.doc.Session != "" && len(c.labels) > 0 {
				return usagef("--label selects among all sessions; leave SESSION or --label out")
			}
			return c.run(cmd.Context())
		},
	}
	cmd.Flags().StringArrayVar(&c.labels, "label", nil, "only sessions with this label, KEY=VALUE; may be given several times")
	cmd.Flags().StringVar(&since, "since", "", "count only costs since the day this long ago, like 7d or 12h (default: all)")
	cmd.Flags().StringVar(&by, "by", "", "group by one or more of "+strings.Join(usage.Keys, ", ")+" (default: phase,persona of a session, session,team of all)")
	a.addServedFlags(cmd, outputCSV)
	_ = cmd.RegisterFlagCompletionFunc("by", listOf(func(context.Context, []string) []string { return usage.Keys }))
	return cmd
}

// parseBy reads --by.
func parseBy(by string, sess bool) ([]string, error) {
	switch {
	case by == "" && sess:
		return []string{"phase", "persona"}, nil
	case by == "":
		return []string{"session", "team"}, nil
	}
	var keys []string
	for key := range strings.SplitSeq(by, ",") {
		key = strings.TrimSpace(key)
		if !slices.Contains(usage.Keys, key) || slices.Contains(keys, key) {
			return nil, usagef("--by: %q is not a list of distinct fields; use one or more of %s, separated by commas", textfmt.Shorten(by, 80), strings.Join(usage.Keys, ", "))
		}
		keys = append(keys, key)
	}
	return keys, nil
}

var daysPattern = regexp.MustCompile(`^([0-9]{1,5})d(.*)$`)

// parseSince reads --since and returns the day, by UTC, that long ago.
func parseSince(since string, now time.Time) (string, error) {
	if since == "" {
		return "", nil
	}
	ago, err := parseAgo(since)
	if err != nil {
		return "", usagef("--since: %q is not a duration like 7d, 12h or 1d12h", textfmt.Shorten(since, 80))
	}
	return budget.Date(now.Add(-ago)), nil
}

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

// run finds the costs, sums them up and prints them.
func (c *usageCommand) run(ctx context.Context) error {
	p, err := c.reading(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	if err := c.storeCosts(ctx, p); err != nil {
		return err
	}
	return c.show()
}

// show prints the document.
func (c *usageCommand) show() error {
	if c.output == outputCSV {
		return usage.WriteCSV(c.stdout, c.doc.By, c.doc.Rows)
	}
	return c.result(c.doc, c.write)
}

// storeCosts adds up the costs of the session, or of all sessions of the store.
func (c *usageCommand) storeCosts(ctx context.Context, p *plane) (err error) {
	if c.doc.Session == "" {
		c.doc.Usage, err = invoke(ctx, p, httpapi.ReadUsage, control.UsageFilter{
			HistoryFilter: control.HistoryFilter{By: c.doc.By, Labels: c.labels}, CostFilter: control.CostFilter{From: c.doc.Since},
		})
	} else {
		c.doc.Usage, err = invoke(ctx, p, httpapi.ReadSessionUsage, control.SessionUsageFilter{
			Session: c.doc.Session, By: c.doc.By, CostFilter: control.CostFilter{From: c.doc.Since},
		})
		err = c.explainIn(ctx, p, err)
	}
	return err
}
