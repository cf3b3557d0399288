package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/terminal"
)

// resolveActions are the answers of `resolve`. Approvals have separate commands.
var resolveActions = session.ForHelp.Rule().Actions

// resolveCommand is `resolve`, and `approve` and `reject`.
type resolveCommand struct {
	*app
	selector
	note, by string
	whole    bool
}

func newResolve(a *app) *cobra.Command {
	c := resolveCommand{app: a}
	cmd := &cobra.Command{
		Use:   "resolve SESSION retry|skip|abort | resolve SESSION supply PATH",
		Short: "Answer a session's request for help",
		Long: "Answer an open request for help: retry starts new rounds of the assignment with the text of --note; skip continues " +
			"without its work, or keeps the later version of a conflict; " +
			"supply uses the files of PATH as its work, with the same checks as for an agent's work; abort ends the session.\n\n" +
			"If no worker answers within " + control.AcceptTimeout.String() +
			", the answer is applied as soon as one does. An answer to a closed request changes nothing.",
		Example: "  maestro resolve web-20261121-abcdef retry --note \"The port is 8081.\"\n" +
			"  maestro resolve web-20261121-abcdef supply fixed/ --for implementation/backend",
		Args: c.check,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.action = session.Action(args[1])
			return c.resolve(cmd.Context(), args[0], strings.Join(args[2:], ""))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.request, "request", "", "id of the request to answer, if there are several")
	flags.StringVar(&c.of, "for", "", "PHASE/PERSONA whose request to answer, if there are several")
	flags.BoolVar(&c.whole, "whole", false, "with supply: PATH has the whole tree, so that files which it lacks are removed")
	c.addAnswerFlags(cmd)
	return a.addServedFlags(cmd)
}

func newApprove(a *app) *cobra.Command {
	return newPhaseAnswer(a, session.AnswerApprove, &cobra.Command{
		Use:   "approve SESSION [PHASE]",
		Short: "Approve a finished phase, so that the phases that depend on it start",
		Long: "Approve a finished phase that waits for approval. PHASE may be omitted if only one phase waits. " +
			"`maestro artifacts diff SESSION PHASE` shows the phase's changes.",
		Example: "  maestro approve web-20261121-abcdef design --note \"Agreed.\"",
	})
}

func newReject(a *app) *cobra.Command {
	return newPhaseAnswer(a, session.AnswerReject, &cobra.Command{
		Use:   "reject SESSION [PHASE] --note TEXT",
		Short: "Reject a finished phase, so that its work is done again with your note",
		Long: "Reject a finished phase that waits for approval: its personas continue from the files that they left and get the text " +
			"of --note, " +
			"then the phase waits for approval again. PHASE may be omitted if only one phase waits.",
		Example: "  maestro reject web-20261121-abcdef design --note \"Use SQLite: there will be one instance.\"",
	})
}

// newPhaseAnswer makes a command answer a session's approval request with an action.
func newPhaseAnswer(a *app, action session.Action, cmd *cobra.Command) *cobra.Command {
	c := resolveCommand{app: a}
	c.action = action
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPhaseAnswer(action, c.note); err != nil {
			return err
		}
		c.of = strings.Join(args[1:], "")
		return c.resolve(cmd.Context(), args[0], "")
	}
	cmd.Flags().StringVar(&c.request, "request", "", "id of the request to answer")
	c.addAnswerFlags(cmd)
	return a.addServedFlags(cmd)
}

// checkPhaseAnswer rejects an invalid note, and a rejection without one.
func checkPhaseAnswer(action session.Action, note string) error {
	if action.LacksNote(note) {
		return usagef("--note is missing; describe what is wrong: the personas get this text")
	}
	return inputError(control.CheckNote(note))
}

// addAnswerFlags gives a command the flags of every answer.
func (c *resolveCommand) addAnswerFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.note, "note", "", "the reason, recorded and passed to the next attempt")
	cmd.Flags().StringVar(&c.by, "by", "", "who answers (default: user@host)")
}

// check rejects invalid arguments of `resolve`.
func (c *resolveCommand) check(cmd *cobra.Command, args []string) error {
	if err := cmdline.Arguments(2, 3)(cmd, args); err != nil {
		return err
	}
	action := session.Action(args[1])
	switch {
	case action.OfPhase():
		return usagef("a phase is approved or rejected with `maestro %s %s PHASE`", action, args[0])
	case !slices.Contains(resolveActions, action):
		return usagef("unknown answer %q; use retry, skip, supply PATH or abort", textfmt.Shorten(args[1], 40))
	case action.Rule().NeedsFiles && len(args) < 3:
		return usagef("missing PATH; give the file or directory to use as the work: `maestro resolve %s supply PATH`", args[0])
	case !action.Rule().NeedsFiles && len(args) == 3:
		return usagef("unexpected argument %q; %s takes no path (--for PHASE/PERSONA selects a request, --note gives the reason)",
			args[2], action)
	}
	return inputError(control.CheckNote(c.note))
}

// resolve answers one request of a session.
func (c *resolveCommand) resolve(ctx context.Context, sessionID, path string) error {
	p, err := c.answering(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	h, open, err := c.find(ctx, p, sessionID)
	if err != nil {
		return c.explainAnswer(err)
	}
	if c.action.OfPhase() && c.request == "" && h.Again() {
		return usagef("there may have been an earlier request about phase %s; look at its present work, and name the request: %s",
			h.Phase,
			c.commandLine(fmt.Sprintf("%s %s %s --request %s", c.action, sessionID, h.Phase, h.ID)))
	}
	body := control.AnswerBody{Action: c.action, Note: c.note, By: c.by}
	answer := control.AnswerInput{Session: sessionID, Request: h.ID, Body: body}
	if c.action == session.AnswerSupply {
		answer.Body.Whole = c.whole
		if answer.Body.Files, err = c.storeSupplied(ctx, p, sessionID, h, path); err != nil {
			return err
		}
	}
	doc, err := invoke(ctx, p, httpapi.AnswerRequest, answer)
	if err != nil {
		return c.explainAnswer(err)
	}
	doc.Kind = h.Kind
	if c.output == outputJSON {
		return c.printJSON(doc)
	}
	c.print("%s", answerSentence(doc, h))
	if c.request == "" && h.Again() {
		c.printErr("this answers request %s, which %s waits for since %s; there may have been an earlier one about it", h.ID,
			h.Subject(), terminal.Moment(&h.Since))
	}
	if doc.Taken && c.action == session.AnswerReject {
		c.printErr("then the phase waits for approval again; follow the session: %s", c.commandLine("watch "+sessionID))
	}
	if left := len(open) - 1; left > 0 {
		c.printErr("%s still open: `%s`", textfmt.Count(left, "request"), c.commandLine("status "+sessionID))
	}
	return nil
}

// answering has the operations that answer requests. With a server, the person is that of the
// token.
func (c *resolveCommand) answering(ctx context.Context) (*backend, error) {
	p, err := c.served(c.temporalBase(c.openStore))(ctx)
	switch {
	case err != nil:
		return nil, err
	case p.base == nil && c.by != "":
		return nil, usagef("--by cannot be used with a server: it records who the token is of")
	case c.by == "":
		c.by = c.env.person()
	}
	return p, nil
}

// explainAnswer adds a remedy to the error of an answer.
func (c *resolveCommand) explainAnswer(err error) error {
	ended := control.ProblemOf(err)
	switch {
	case ended.Reason != control.Ended:
	case ended.State == session.Completed:
		return failf("%w; no request is open", err)
	default:
		return failf("%w, and no request is open; resume it: %s", err, c.commandLine("resume "+ended.Session))
	}
	return c.explain(err)
}

// find finds the request that a selector means, and all that are open.
func (s selector) find(ctx context.Context, p *backend, sessionID string) (h session.Request, open []session.Request, err error) {
	doc, err := p.open(ctx, sessionID)
	if err == nil {
		h, err = s.choose(sessionID, doc.Requests)
	}
	return h, doc.Requests, err
}

// storeSupplied stores the files that a person supplies as an assignment's work.
func (c *resolveCommand) storeSupplied(ctx context.Context, p *backend, sessionID string, h session.Request,
	path string,
) (files spec.Digest, err error) {
	if p.base == nil {
		return "", usagef("supply needs Temporal and the store; with a server, supply the files in its dashboard: %s",
			p.dashboard(ctx, sessionID))
	}
	s, _, err := c.stored(ctx, sessionID)
	if err != nil {
		return "", err
	}
	t, err := c.storedTeam(ctx, p, sessionID)
	if err != nil {
		return "", err
	}
	phase, ok := t.Phase(h.Phase)
	if !ok {
		return "", usagef("the phase of request %s is not known; select it with --for PHASE/PERSONA", h.ID)
	}
	phase.Produces = slices.Concat(t.Personas[h.Persona].Produces, phase.Produces)
	return suppliedFiles(ctx, c.console, c.environ, s, t, phase, "supply", path)
}

// answerSentence describes in one line what an answer does.
func answerSentence(d control.Answered, h session.Request) string {
	if !d.Taken {
		return fmt.Sprintf("no worker answered within %s; session %s gets the answer %q to request %s as soon as one does",
			control.AcceptTimeout, d.Session, d.Answer.Action, h.ID)
	}
	if d.Answer.Left > 0 {
		return fmt.Sprintf("your approval of phase %s is recorded; session %s waits for %s more", d.Answer.Phase, d.Session,
			textfmt.Count(d.Answer.Left, "approval"))
	}
	of, told := h.Subject(), ""
	if d.Answer.Note != "" {
		told = " with your note"
	}
	if d.Answer.Action == session.AnswerSkip && h.SkipEffect != "" {
		return fmt.Sprintf("session %s continues, and %s", d.Session, safetext.Line(h.SkipEffect))
	}
	does := map[session.Action]string{
		session.AnswerRetry:   fmt.Sprintf("continues: %s tries again%s", of, told),
		session.AnswerSkip:    fmt.Sprintf("continues without the work of %s", of),
		session.AnswerSupply:  fmt.Sprintf("continues: your files are used as the work of %s once they pass its checks", of),
		session.AnswerAbort:   fmt.Sprintf("ends without the work of %s", of),
		session.AnswerApprove: fmt.Sprintf("continues after phase %s", of),
		session.AnswerReject:  fmt.Sprintf("continues: the work of phase %s is done again%s", of, told),
	}
	return fmt.Sprintf("session %s %s", d.Session, does[d.Answer.Action])
}
