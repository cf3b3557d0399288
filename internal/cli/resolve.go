package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
	"github.com/maestro-hive/maestro/workflows"
)

// resolveActions are the answers of `resolve`. Approvals have separate commands.
var resolveActions = session.ForHelp.Rule().Actions

// answerDocument is the document of `resolve`, `approve` and `reject` with -o json.
type answerDocument struct {
	Session string              `json:"session"`
	Kind    session.RequestKind `json:"kind,omitempty"`
	// Answer is the answer; once accepted, as the session has recorded it.
	Answer session.Answer `json:"answer"`
	// Taken: the session has accepted it. Otherwise no worker has answered yet, and
	// it takes it, or finds it stale, as soon as one does.
	Taken bool `json:"taken"`
	// Trouble is the error of an answer; of `resolve --all` only.
	Trouble string `json:"trouble,omitempty"`
}

// resolveCommand is `resolve`, and `approve` and `reject`.
type resolveCommand struct {
	*console
	*connector
	env Env
	selector
	note, by string
	batch    batchOptions
}

func resolveCommandOf(a *app) resolveCommand {
	return resolveCommand{console: a.console, connector: a.connector, env: a.env}
}

func newResolve(a *app) *cobra.Command {
	c := resolveCommandOf(a)
	cmd := &cobra.Command{
		Use:   "resolve SESSION retry|skip|abort | resolve SESSION supply PATH | resolve --all retry|skip|abort",
		Short: "Answer a session's request for help",
		Long: "Answer an open request for help: retry starts new rounds of the assignment with the text of --note; skip continues without its work; " +
			"supply uses the files of PATH as its work, with the same checks as for an agent's work; abort ends the session.\n\n" +
			"If no worker answers within " + answerTimeout.String() + ", the answer is applied as soon as one does. An answer to a closed request changes nothing. " +
			"With --all, every open request of the store's sessions that matches --team, --phase and --category is answered; --dry-run lists them, --yes confirms.",
		Example: "  maestro resolve web-20261121-abcdef retry --note \"The port is 8081.\"\n" +
			"  maestro resolve web-20261121-abcdef supply fixed/ --for implementation/backend\n" +
			"  maestro resolve --all --category auth retry --note \"The key is renewed.\" --yes",
		Args: func(cmd *cobra.Command, args []string) error { return c.check(cmd, args) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.by == "" {
				c.by = c.env.person()
			}
			if c.batch.all {
				return c.resolveAll(cmd.Context(), args[0])
			}
			c.action = session.Action(args[1])
			return c.resolve(cmd.Context(), args[0], strings.Join(args[2:], ""))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.request, "request", "", "id of the request to answer, if there are several")
	flags.StringVar(&c.of, "for", "", "PHASE/PERSONA whose request to answer, if there are several")
	c.addAnswerFlags(cmd)
	c.batch.add(cmd)
	for _, single := range []string{"request", "for"} {
		cmd.MarkFlagsMutuallyExclusive("all", single)
	}
	a.addSessionFlags(cmd)
	return cmd
}

// addAnswerFlags gives a command the flags of every answer.
func (c *resolveCommand) addAnswerFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.note, "note", "", "the reason, recorded and passed to the next attempt")
	cmd.Flags().StringVar(&c.by, "by", "", "who answers (default: user@host)")
}

// check rejects invalid arguments of `resolve`.
func (c *resolveCommand) check(cmd *cobra.Command, args []string) error {
	if c.batch.all {
		if len(args) != 1 || !slices.Contains(batchActions, session.Action(args[0])) {
			return usagef("--all takes one of retry, skip and abort, and no session, like `maestro resolve --all retry`")
		}
		if err := c.batch.checkCategory(); err != nil {
			return err
		}
		return checkNote(c.note)
	}
	if c.batch.given() {
		return usagef("--team, --phase, --category, --dry-run and --yes need --all")
	}
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
		return usagef("unexpected argument %q; %s takes no path (--for PHASE/PERSONA selects a request, --note says why)", args[2], action)
	}
	return checkNote(c.note)
}

// checkNote rejects a note that is too large or not text.
func checkNote(note string) error {
	switch {
	case len(note) > session.MaxNote:
		return usagef("--note is longer than %s; put longer texts into a file and supply it", textfmt.Size(session.MaxNote))
	case !utf8.ValidString(note) || strings.ContainsRune(note, 0):
		return usagef("--note is not valid UTF-8")
	}
	return nil
}

// resolve answers one request of a session.
func (c *resolveCommand) resolve(ctx context.Context, sessionID, path string) error {
	w, done, err := c.watch(ctx, sessionID)
	if err != nil {
		return err
	}
	defer done()
	info, err := c.describe(ctx, w)
	if err == nil {
		err = c.checkRunning(info, sessionID)
	}
	if err != nil {
		return err
	}
	h, open, err := c.find(ctx, w)
	if err != nil {
		return err
	}
	answer := session.Answer{Request: h.ID, Action: c.action, Note: c.note, By: c.by}
	if c.action == session.AnswerSupply {
		if answer.Files, err = c.storeSupplied(ctx, w, info, h, path); err != nil {
			return err
		}
	}
	doc, err := c.answer(ctx, w, h, answer)
	if err != nil {
		return err
	}
	if c.output == outputJSON {
		return c.printJSON(doc)
	}
	c.print("%s", doc.sentence(h))
	if doc.Taken && c.action == session.AnswerReject {
		c.printErr("then the phase waits for approval again; follow the session: %s", c.commandLine("watch "+sessionID))
	}
	if left := len(open) - 1; left > 0 {
		c.printErr("%s still open: `%s`", textfmt.Count(left, "request"), c.commandLine("status "+sessionID))
	}
	return nil
}

// checkRunning rejects a session that has ended.
func (c *resolveCommand) checkRunning(info *workflowpb.WorkflowExecutionInfo, sessionID string) error {
	switch {
	case info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return nil
	case info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return failf("session %s is completed; no request is open", sessionID)
	}
	return failf("session %s has ended: it is %s, and no request is open; resume it: %s", sessionID, sessionstatus.ClosedState(info.GetStatus()), c.commandLine("resume "+sessionID))
}

// find finds the request that a selector means, and all that are open.
func (s selector) find(ctx context.Context, w *sessionstatus.Watcher) (h session.Request, open []session.Request, err error) {
	open, known, err := w.Requests(ctx)
	switch {
	case err != nil:
		return h, nil, err
	case known:
		h, err = s.choose(w.Session, open)
		return h, open, err
	case s.request == "":
		return h, nil, failf("the open requests of session %s are unknown: no worker answers, and its store is not available here; start a worker, give --state-dir, or choose the request with --request ID", w.Session)
	}
	phase, persona, _ := strings.Cut(s.of, "/")
	return session.Request{ID: s.request, Phase: phase, Persona: persona}, nil, nil
}

// storeSupplied stores the files that a person supplies as an assignment's work.
func (c *resolveCommand) storeSupplied(ctx context.Context, w *sessionstatus.Watcher, info *workflowpb.WorkflowExecutionInfo, h session.Request, path string) (spec.Digest, error) {
	owner := sessionstatus.Memo[string](info, workflows.MemoStore)
	if w.Store == nil || owner != "" && owner != w.Store.ID() {
		return "", usagef("the store of session %s (%s), which takes the files, is not available here; give its --state-dir", w.Session, terminal.Dash(owner))
	}
	key := w.Key()
	from, err := c.newest(ctx, w.Store, key)
	if err != nil {
		return "", err
	}
	t, err := teamOf(ctx, w.Store, from, "")
	if err != nil {
		return "", err
	}
	phase, ok := t.Phase(h.Phase)
	if !ok {
		return "", usagef("the phase of request %s is not known; select it with --for PHASE/PERSONA", h.ID)
	}
	phase.Produces = slices.Concat(t.Personas[h.Persona].Produces, phase.Produces)
	return suppliedFiles(ctx, c.console, w.Store, t, phase, "supply", path)
}

// answer sends an answer, and waits until the session has accepted it.
func (c *resolveCommand) answer(ctx context.Context, w *sessionstatus.Watcher, h session.Request, answer session.Answer) (answerDocument, error) {
	doc := answerDocument{Session: w.Session, Kind: h.Kind, Answer: answer}
	var taken session.Answer
	answered, err := c.send(ctx, w.Conn, w.Session, message{update: workflows.ResolveUpdate, argument: answer}, &taken)
	if err == nil && answered {
		doc.Answer, doc.Taken = taken, true
	}
	return doc, err
}

// sentence describes in one line what an answer does.
func (d answerDocument) sentence(h session.Request) string {
	if !d.Taken {
		return fmt.Sprintf("no worker answered within %s; session %s gets the answer %q to request %s as soon as one does",
			answerTimeout, d.Session, d.Answer.Action, h.ID)
	}
	of, told := subject(h), ""
	if d.Answer.Note != "" {
		told = " with your note"
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
