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
	"github.com/maestro-hive/maestro/internal/httpapi"
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
	_ = cmd.RegisterFlagCompletionFunc("category", cobra.FixedCompletions(categoryNames(), cobra.ShellCompDirectiveNoFileComp))
	flags.BoolVar(&o.dryRun, "dry-run", false, "with --all: only list the requests that would be answered")
	flags.BoolVar(&o.yes, "yes", false, "with --all: answer without a dry run")
}

// categoryNames lists the failure categories as they are written.
func categoryNames() []string {
	var names []string
	for _, c := range failures.Categories() {
		names = append(names, string(c))
	}
	return names
}

// checkCategory refuses a category that no failure has, which would match nothing.
func (o batchOptions) checkCategory() error {
	if o.category == "" || slices.Contains(categoryNames(), o.category) {
		return nil
	}
	return usagef("--category: unknown failure category %q%s; use one of %s", textfmt.Shorten(o.category, 40),
		textfmt.DidYouMean(o.category, categoryNames()), strings.Join(categoryNames(), ", "))
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
	found, err := invoke(ctx, p, httpapi.ListRequests, httpapi.None{})
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
			doc, err := p.open(ctx, e.Session)
			if open = doc.Requests; err != nil || !doc.Known {
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
	return c.sendAll(ctx, p, all)
}

// listPending lists the requests that would be answered. Without --dry-run that is
// a usage error.
func (c *resolveCommand) listPending(all []pending) error {
	doc := batchDocument{DryRun: true, Answers: []control.Answered{}}
	for _, p := range all {
		doc.Answers = append(doc.Answers, control.Answered{Session: p.session, Kind: p.request.Kind, Answer: c.answerTo(p.session, p.request).Answer()})
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

func (c *resolveCommand) answerTo(sessionID string, h session.Request) control.AnswerInput {
	return control.AnswerInput{Session: sessionID, Request: h.ID, Body: control.Answer{Action: c.action, Note: c.note, By: c.by}}
}

// sendAll answers one request after the other. Once no worker has answered, the
// rest is sent without waiting for one.
func (c *resolveCommand) sendAll(ctx context.Context, p *plane, all []pending) error {
	doc := batchDocument{Answers: []control.Answered{}}
	served, failed := true, 0
	for _, one := range all {
		answer := c.answerTo(one.session, one.request)
		answer.Body.Leave = !served
		d, err := invoke(ctx, p, httpapi.AnswerRequest, answer)
		d.Session, d.Kind, d.Answer = one.session, one.request.Kind, cmp.Or(d.Answer, answer.Answer())
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
			line = answerSentence(d, one.request)
		default:
			served = false
			line = fmt.Sprintf("session %s gets the answer %q for %s as soon as a worker answers", d.Session, d.Answer.Action, one.request.Subject())
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
