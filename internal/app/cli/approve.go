package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
)

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
		Long: "Reject a finished phase that waits for approval: its personas continue from the files that they left and get the text of --note, " +
			"then the phase waits for approval again. PHASE may be omitted if only one phase waits.",
		Example: "  maestro reject web-20261121-abcdef design --note \"Use SQLite: there will be one instance.\"",
	})
}

// newPhaseAnswer makes a command answer a session's approval request with an action.
func newPhaseAnswer(a *app, action session.Action, cmd *cobra.Command) *cobra.Command {
	c := resolveCommandOf(a)
	c.action = action
	cmd.Args = cmdline.Arguments(1, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPhaseAnswer(action, c.note); err != nil {
			return err
		}
		c.of = strings.Join(args[1:], "")
		return c.resolve(cmd.Context(), args[0], "")
	}
	cmd.Flags().StringVar(&c.request, "request", "", "id of the request to answer")
	c.addAnswerFlags(cmd)
	a.addServedFlags(cmd)
	return cmd
}

// checkPhaseAnswer rejects an invalid note, and a rejection without one.
func checkPhaseAnswer(action session.Action, note string) error {
	if action.LacksNote(note) {
		return usagef("--note is missing; describe what is wrong: the personas get this text")
	}
	return checkNote(note)
}
