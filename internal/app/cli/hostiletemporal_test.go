package cli_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"
)

// temporal is a client of the desk's Temporal.
func (d *desk) temporal() client.Client {
	d.t.Helper()
	c, err := client.Dial(client.Options{
		HostPort: d.variable("TEMPORAL_ADDRESS"), Namespace: d.namespace,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(d.t, err)
	d.t.Cleanup(c.Close)
	return c
}

// page looks at what Temporal's Web UI shows of the session.
func (d *desk) page(when string) {
	d.t.Helper()
	c := d.temporal()
	value, err := c.QueryWorkflow(d.t.Context(), "s", "", "__temporal_workflow_metadata")
	require.NoError(d.t, err)
	var metadata sdkpb.WorkflowMetadata
	require.NoError(d.t, value.Get(&metadata))
	require.Contains(d.t, metadata.GetCurrentDetails(), "of team crew")
	harmlessPage(d.t, when+": the details", metadata.GetCurrentDetails())
	described, err := c.DescribeWorkflowExecution(d.t.Context(), "s", "")
	require.NoError(d.t, err)
	harmlessPage(d.t, when+": the summary", text(d.t, described.GetExecutionConfig().GetUserMetadata().GetSummary()))
	harmlessPage(d.t, when+": the static details", text(d.t, described.GetExecutionConfig().GetUserMetadata().GetDetails()))
	for name, field := range described.GetWorkflowExecutionInfo().GetMemo().GetFields() {
		secretless(d.t, when+": the memo's "+name, string(field.GetData()))
	}
	for _, a := range described.GetPendingActivities() {
		secretless(d.t, when+": heartbeats", a.String())
	}
}

// text is a payload that is a text; empty for none.
func text(t *testing.T, p *commonpb.Payload) (text string) {
	t.Helper()
	if p != nil {
		require.NoError(t, json.Unmarshal(p.GetData(), &text))
	}
	return text
}

// history looks at what stays in Temporal's history.
func (d *desk) history() {
	d.t.Helper()
	events := d.temporal().GetWorkflowHistory(d.t.Context(), "s", "", false, 0)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(d.t, err)
		harmlessPage(d.t, "an event's summary", text(d.t, e.GetUserMetadata().GetSummary()))
		data, err := proto.Marshal(e)
		require.NoError(d.t, err)
		secretless(d.t, "an event", string(data))
	}
}
