package system

import (
	"context"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// history is everything that Temporal keeps of a session, payloads decoded.
func (w *world) history(session string) string {
	w.t.Helper()
	events := w.client().GetWorkflowHistory(context.Background(), session, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var all string
	for events.HasNext() {
		event, err := events.Next()
		require.NoError(w.t, err)
		data, err := protojson.Marshal(event)
		require.NoError(w.t, err)
		all += string(data) + "\n"
		for _, p := range payloads(event.ProtoReflect()) {
			all += string(p) + "\n"
		}
	}
	return all
}
