package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/control"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// batchActions are the answers that can be given to many requests at once.
var batchActions = []session.Action{session.AnswerRetry, session.AnswerSkip, session.AnswerAbort}

// batchOptions are the flags of `resolve --all`.
type batchOptions struct {
	all                   bool
	team, phase, category string
	dryRun, yes           bool
}

// add gives `resolve` the flags.
func (o *batchOptions) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "answer every open request of all sessions that matches")
	flags.StringVar(&o.team, "team", "", "with --all: only sessions of this team")
	flags.StringVar(&o.phase, "phase", "", "with --all: only requests about this phase")
	flags.StringVar(&o.category, "category", "", "with --all: only requests of this category, like auth")
	_ = cmd.RegisterFlagCompletionFunc("category", cobra.FixedCompletions(words(failures.Categories()), cobra.ShellCompDirectiveNoFileComp))
	flags.BoolVar(&o.dryRun, "dry-run", false, "with --all: only list the requests that would be answered")
	flags.BoolVar(&o.yes, "yes", false, "with --all: answer without a dry run")
}

// checkCategory refuses a category that no failure has, which would match nothing.
func (o batchOptions) checkCategory() error {
	known := words(failures.Categories())
	if o.category == "" || slices.Contains(known, o.category) {
		return nil
	}
	return usagef("--category: unknown failure category %q%s; use one of %s", textfmt.Shorten(o.category, 40),
		textfmt.DidYouMean(o.category, known), strings.Join(known, ", "))
}

// given reports whether flags select among all sessions.
func (o batchOptions) given() bool {
	return o.team != "" || o.phase != "" || o.category != "" || o.dryRun || o.yes
}

func (o batchOptions) matches(team string, h session.Request) bool {
	return (o.team == "" || o.team == team) && (o.phase == "" || o.phase == h.Phase) && (o.category == "" || o.category == string(h.Category))
}

// batchDocument is the document of `resolve --all -o json`.
type batchDocument struct {
	DryRun  bool               `json:"dry_run"`
	Answers []control.Answered `json:"answers"`
}

// pending is a request that is to be answered.
type pending struct {
	session string
	request session.Request
}

// resolveAll gives one answer to the open requests of all sessions that match.
func (c *resolveCommand) resolveAll(ctx context.Context, action string) error {
	p, err := c.answering(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	found, err := p.requests.Inbox(ctx)
	if err != nil {
		return err
	}
	c.action = session.Action(action)
	var all []pending
	skipped := map[string]bool{}
	for _, e := range found.Waiting {
		open := []session.Request{e.Request}
		switch {
		case e.Lost && !skipped[e.Session]:
			c.printErr("session %s is skipped: Temporal has lost it; %s", e.Session, c.commandLine("resume "+e.Session))
			skipped[e.Session] = true
			continue
		case e.Lost:
			continue
		case e.ID == "" && (c.batch.team == "" || c.batch.team == e.Team): // its store is elsewhere
			known := false
			if open, known, err = p.requests.Open(ctx, e.Session); err != nil || !known {
				c.printErr("session %s is skipped: no worker answers, and its store is not available here", e.Session)
				continue
			}
		}
		for _, h := range open {
			if h.Takes(c.action) && c.batch.matches(e.Team, h) {
				all = append(all, pending{e.Session, h})
			}
		}
	}
	if c.batch.dryRun || !c.batch.yes {
		return c.listPending(all)
	}
	return c.sendAll(ctx, p.requests, all)
}

// listPending lists the requests that would be answered. Without --dry-run that is
// a usage error.
func (c *resolveCommand) listPending(all []pending) error {
	doc := batchDocument{DryRun: true, Answers: []control.Answered{}}
	for _, p := range all {
		doc.Answers = append(doc.Answers, control.Answered{Session: p.session, Kind: p.request.Kind, Answer: c.answerTo(p.request)})
		if c.output == outputTable {
			c.print("%s: %s %s: %s", p.session, c.action, p.request.Subject(), safetext.Clip(messageOf(p.request), 100))
		}
	}
	if c.output == outputJSON {
		if err := c.printJSON(doc); err != nil {
			return err
		}
	}
	switch {
	case len(all) == 0:
		c.printErr("no open request matches")
	case !c.batch.dryRun:
		return usagef("nothing was answered; add --yes to answer %s", textfmt.Count(len(all), "request"))
	}
	return nil
}

func (c *resolveCommand) answerTo(h session.Request) session.Answer {
	return session.Answer{Request: h.ID, Action: c.action, Note: c.note, By: c.by}
}

// sendAll answers one request after the other. Once no worker has answered, the
// rest is sent without waiting for one.
func (c *resolveCommand) sendAll(ctx context.Context, requests requestOperations, all []pending) error {
	doc := batchDocument{Answers: []control.Answered{}}
	served, failed := true, 0
	for _, p := range all {
		d, err := c.answerPending(ctx, requests, p, served)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		line := ""
		switch {
		case err != nil && lostConnection(err):
			return err
		case err != nil:
			failed++
			d.Trouble = c.describeError(err)
			line = d.Trouble
		case d.Taken:
			line = answerSentence(d, p.request)
		default:
			served = false
			line = fmt.Sprintf("session %s gets the answer %q for %s as soon as a worker answers", d.Session, d.Answer.Action, p.request.Subject())
		}
		doc.Answers = append(doc.Answers, d)
		if c.output == outputTable {
			c.print("%s", line)
		}
	}
	if c.output == outputJSON {
		if err := c.printJSON(doc); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		c.printErr("no open request matches")
	}
	if failed > 0 {
		return failf("%d of %s could not be answered", failed, textfmt.Count(len(all), "request"))
	}
	return nil
}

// answerPending answers by an update or, where no worker serves, by a signal.
func (c *resolveCommand) answerPending(ctx context.Context, requests requestOperations, p pending, served bool) (doc control.Answered, err error) {
	if served {
		doc, err = requests.Answer(ctx, p.session, c.answerTo(p.request))
	} else {
		doc, err = requests.Leave(ctx, p.session, c.answerTo(p.request))
	}
	doc.Session, doc.Kind, doc.Answer = p.session, p.request.Kind, cmp.Or(doc.Answer, c.answerTo(p.request))
	return doc, err
}
