package httpapi

import (
	"context"
	"iter"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
)

// followInput says what is followed.
type followInput struct {
	Session string `query:"session" maxLength:"200" doc:"only changes of this session"`
	After   string `header:"Last-Event-ID" maxLength:"200" doc:"the id of the last event that the reader has"`
}

func events(api huma.API, running following, feed *control.Feed) {
	op := operation("GET /events", "follow-events", "Follow which sessions change, as server-sent events")
	op.Description = "Each event `change` names a session to read again; one without a session means all. Reconnect with Last-Event-ID to miss none: ids remain valid when the server restarts."
	streamed(api, running, op, func(context.Context, *followInput) error { return nil }, func(ctx context.Context, in *followInput) iter.Seq2[sent, error] {
		return func(yield func(sent, error) bool) {
			for c, err := range feed.Follow(ctx, in.After, in.Session) {
				if !yield(sent{"change", c.ID, c}, err) {
					return
				}
			}
		}
	})
}
