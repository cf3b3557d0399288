package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// idlePause is the longest silence of a stream: then a comment is sent, which shows that the
// reader is gone.
const idlePause = 15 * time.Second

// sent is an event of a stream.
type sent struct {
	Kind, ID string
	Data     any
}

// streamed registers an operation that answers with server-sent events. check refuses before
// the stream begins.
func streamed[I any](api huma.API, op huma.Operation, check func(context.Context, *I) error, follow func(context.Context, *I) iter.Seq2[sent, error]) {
	op.Responses = map[string]*huma.Response{"200": {
		Description: "a stream of events",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	huma.Register(api, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		if err := check(ctx, in); err != nil {
			return nil, problemOf(ctx, err)
		}
		return &huma.StreamResponse{Body: func(hctx huma.Context) {
			hctx.SetHeader("Content-Type", "text/event-stream")
			hctx.SetHeader("Cache-Control", "no-store")
			w, _ := hctx.BodyWriter().(http.ResponseWriter)
			ctx, cancel := context.WithCancel(hctx.Context())
			defer cancel()
			stream(ctx, w, follow(ctx, in))
		}}, nil
	})
}

// stream writes events until there are no more, or the context or the reader ends.
func stream(ctx context.Context, w http.ResponseWriter, events iter.Seq2[sent, error]) {
	found := make(chan sent)
	go func() {
		defer close(found)
		for e, err := range events {
			if err != nil {
				e = sent{Kind: "problem", Data: problemOf(ctx, err)}
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
	data, _ := json.Marshal(e.Data) // never fails
	id := ""
	if e.ID != "" {
		id = "id: " + e.ID + "\n"
	}
	_, err := fmt.Fprintf(w, "event: %s\n%sdata: %s\n\n", e.Kind, id, data)
	return err
}
