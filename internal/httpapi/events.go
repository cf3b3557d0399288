package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/control"
)

// eventPause is the longest silence of a stream of events: then a comment is sent, which shows
// that the reader is gone.
const eventPause = 15 * time.Second

// followInput says what is followed.
type followInput struct {
	Session string `query:"session" maxLength:"200" doc:"only changes of this session"`
	After   string `header:"Last-Event-ID" maxLength:"200" doc:"the id of the last event that the reader has"`
}

func events(api huma.API, feed *control.Feed) {
	op := operation("GET /events", "follow-events", "Follow which sessions change, as server-sent events")
	op.Description = "Each event `change` names a session to read again; one without a session means all. Reconnect with Last-Event-ID to miss none: ids stay good when the server restarts."
	op.Responses = map[string]*huma.Response{"200": {
		Description: "a stream of events",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	huma.Register(api, op, func(_ context.Context, in *followInput) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			hctx.SetHeader("Content-Type", "text/event-stream")
			hctx.SetHeader("Cache-Control", "no-store")
			w, _ := hctx.BodyWriter().(http.ResponseWriter)
			stream(hctx.Context(), w, feed, *in)
		}}, nil
	})
}

// stream writes events until the reader or the server ends.
func stream(ctx context.Context, w http.ResponseWriter, feed *control.Feed, in followInput) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan control.Change)
	go func() {
		defer close(found)
		for c, err := range feed.Follow(ctx, in.After, in.Session) {
			if err != nil {
				return
			}
			select {
			case found <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	flusher := http.NewResponseController(w)
	_, _ = fmt.Fprint(w, "retry: 2000\n\n")
	ticker := time.NewTicker(eventPause)
	defer ticker.Stop()
	for {
		if flusher.Flush() != nil {
			return
		}
		select {
		case c, more := <-found:
			if !more {
				return
			}
			data, _ := json.Marshal(c) // never fails
			if _, err := fmt.Fprintf(w, "event: change\nid: %s\ndata: %s\n\n", c.ID, data); err != nil {
				return
			}
		case <-ticker.C:
			if _, err := fmt.Fprint(w, ": \n\n"); err != nil {
				return
			}
		}
	}
}
