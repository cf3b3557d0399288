package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/ops/control"
)

// idlePause is the longest silence of a stream: then a comment is sent, which shows that the
// reader is gone.
const idlePause = 15 * time.Second

const (
	// ownStreams is how many streams a person may follow at a time, and allStreams how many there
	// may be.
	ownStreams, allStreams = 32, 1024
)

// following counts the streams of a server by person.
type following struct{ *access.InFlight }

func newFollowing() following { return following{access.NewInFlight(ownStreams, allStreams)} }

// begin counts one more stream of the caller, until done is called.
func (f following) begin(ctx context.Context) (done func(), err error) {
	who, _ := access.Of(ctx)
	done, own := f.Begin(who.Identity())
	switch {
	case done != nil:
		return done, nil
	case own:
		return nil, &access.RefusedError{
			Status: http.StatusTooManyRequests,
			Text:   fmt.Sprintf("you follow %d streams of events already; end one first", ownStreams),
		}
	}
	return nil, &access.RefusedError{
		Status: http.StatusServiceUnavailable,
		Text:   "too many streams of events are followed; try again later",
	}
}

// sent is an event of a stream as it is written.
type sent struct {
	kind, position string
	data           any
}

func (o Stream) register(s *server) {
	op := o.described()
	op.Description = o.Description
	op.Responses = answers("a stream of events", "text/event-stream", &huma.Schema{Type: huma.TypeString})
	huma.Register(s.api, op, func(ctx context.Context, in *control.ChangesInput) (*huma.StreamResponse, error) {
		done, err := s.streams.begin(ctx)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			defer done()
			hctx.SetHeader("Content-Type", "text/event-stream")
			hctx.SetHeader("Cache-Control", "no-store")
			w, _ := hctx.BodyWriter().(http.ResponseWriter)
			ctx, cancel := context.WithCancel(hctx.Context())
			defer cancel()
			stream(ctx, w, o.Do(ctx, s.base, *in))
		}}, nil
	})
}

// stream writes events until there are no more, or the context or the reader ends.
func stream(ctx context.Context, w http.ResponseWriter, events iter.Seq2[control.Change, error]) {
	found := make(chan sent)
	go func() {
		defer close(found)
		for event, err := range events {
			e := sent{"change", event.ID, event}
			if err != nil {
				e = sent{kind: "problem", data: problemOf(ctx, err)}
			}
			select {
			case found <- e:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	flusher := http.NewResponseController(w)
	_, _ = fmt.Fprint(w, "retry: 2000\n\n")
	ticker := time.NewTicker(idlePause)
	defer ticker.Stop()
	for flusher.Flush() == nil {
		select {
		case e, more := <-found:
			if !more || e.write(w) != nil {
				return
			}
		case <-ticker.C:
			if _, err := fmt.Fprint(w, ": \n\n"); err != nil {
				return
			}
		}
	}
}

// write writes an event.
func (e sent) write(w http.ResponseWriter) error {
	data, _ := json.Marshal(e.data) // never fails
	id := ""
	if e.position != "" {
		id = "id: " + e.position + "\n"
	}
	_, err := fmt.Fprintf(w, "event: %s\n%sdata: %s\n\n", e.kind, id, data)
	return err
}
