package launch

import (
	"context"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/entityworkflow"
	"github.com/maestro-hive/maestro/workflows"
)

// The limits of the requirement's text in the Web UI and the memo.
const (
	summaryRequirement = 100
	detailsRequirement = 600
	memoRequirement    = 200
)

// options are those of the session's workflow.
func (l *Launcher) options(ctx context.Context, s Session) client.StartWorkflowOptions {
	o := client.StartWorkflowOptions{
		ID:                       s.ID,
		TaskQueue:                spec.WorkflowQueue(l.Store.ID()),
		WorkflowTaskTimeout:      entityworkflow.WorkflowTaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,

		WorkflowExecutionErrorWhenAlreadyStarted: true,

		Memo: map[string]any{
			workflows.MemoStore:       l.Store.ID(),
			workflows.MemoTeam:        s.Team.Name,
			workflows.MemoRequirement: safetext.Clip(s.Requirement, memoRequirement),
		},
		StaticSummary: fmt.Sprintf("team %s: %s", s.Team.Name, safetext.Code(safetext.Clip(s.Requirement, summaryRequirement))),
		StaticDetails: details(s, access.ServedAt(ctx, l.Store.State)),
	}
	if len(s.Start.Labels) > 0 {
		o.Memo[workflows.MemoLabels] = s.Start.Labels
	}
	if s.resumes() {
		o.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	}
	o.TypedSearchAttributes = temporal.NewSearchAttributes(
		workflows.AttributeTeam.ValueSet(s.Team.Name), workflows.AttributeStatus.ValueSet(string(session.Admitted)))
	return o
}

// details is the Web UI's text on a session, for readers who do not know Maestro. It is Markdown,
// except for the requirement, which may come from a ticket.
func details(s Session, dashboard string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A Maestro session: team **%s** works on ", s.Team.Name)
	for i, p := range s.Team.Phases {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%s)", p.Name, p.Workers())
	}
	fmt.Fprintf(&b, " on this requirement:\n\n%s\n",
		safetext.CodeBlock(textfmt.Shorten(strings.TrimSpace(s.Requirement), detailsRequirement)))
	if dashboard != "" {
		fmt.Fprintf(&b, "\nOpen it in the [dashboard](%s%s).\n", dashboard, access.PagePath(s.ID, ""))
	}
	fmt.Fprintf(&b, "\nThe current details on this page show whether it waits for a person, and how to answer.\n\nFollow it: "+
		"`maestro watch %[1]s`. Its files: `maestro artifacts list %[1]s`. Cancel it: `maestro cancel %[1]s`, or the button above.\n",
		s.ID)
	return b.String()
}
