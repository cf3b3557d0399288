package workflows_test

import (
	"testing"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/workflows"
)

// TestRecordedHistoriesReplay replays sessions of every kind, a ticket
// and a webhook's call that earlier code has run: what changes the commands of a running session fails here.
func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	temporaltest.ReplayHistories(t, map[string]any{
		workflows.TeamSessionName: workflows.TeamSession,
		workflows.TicketName:      workflows.Ticket, workflows.WebhookName: workflows.Webhook,
	})
}
