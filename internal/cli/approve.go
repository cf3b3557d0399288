package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/maestro-hive/maestro/internal/cmdline"
	"github.com/maestro-hive/maestro/internal/session"
)

func newApprove(a *app) *cobra.Command {
	return newVerdict(a, session.Approving, &cobra.Command{
		Use:   "approve SESSION [PHASE]",
		Short: "Approve a finished phase that waits for it, so that what builds on it begins",
		Long: "Approve a finished phase of a session that waits for a person's approval. PHASE may be left out where only one waits. " +
			"`maestro artifacts diff SESSION PHASE` shows what the phase has changed.",
		Example: "  maestro approve web-20261121-abcdef design --note \"Agreed.\"",
	})
}

func newReject(a *app) *cobra.Command {
	return newVerdict(a, session.Rejecting, &cobra.Command{
		Use:   "reject SESSION [PHASE] --note TEXT",
		Short: "Have a finished phase that waits for approval do its work again, told why",
		Long: "Reject a finished phase of a session that waits for a person's approval: its personas go on from the files that they have left, told what --note says, " +
			"and the phase waits for approval again. PHASE may be left out where only one waits.",
		Example: "  maestro reject web-20261121-abcdef design --note \"Use SQLite: there will be one instance.\"",
	})
}

// newVerdict makes a command say a verb to a session's approval request.
func newVerdict(a *app, verb session.Verb, cmd *cobra.Command) *cobra.Command {
	o := resolveOptions{selector: selector{verb: verb}}
	cmd.Args = cmdline.Arguments(1, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if verb == session.Rejecting && strings.TrimSpace(o.note) == "" {
			return usagef("--note is missing; say what is wrong: it is what the personas are told")
		}
		if err := checkNote(o.note); err != nil {
			return err
		}
		if o.by == "" {
			o.by = a.person()
		}
		o.of = strings.Join(args[1:], "")
		return a.resolve(cmd.Context(), o, args[0], "")
	}
	cmd.Flags().StringVar(&o.request, "request", "", "id of the request to answer")
	o.addAnswerFlags(cmd)
	a.addTemporalFlags(cmd)
	a.addStateDirFlag(cmd)
	a.addOutputFlag(cmd)
	cmd.ValidArgsFunction = a.completeApprovals
	return cmd
}
