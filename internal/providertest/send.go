package providertest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// answer is an HTTP answer under way.
type answer struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
}

// send answers with the reply, or with what its fault makes of it.
func (a answer) send(format api, request Request, reply Reply) {
	fault := reply.Fault
	if !a.wait(fault.Delay) || fault.NoAnswer {
		panic(http.ErrAbortHandler) // closes the connection without a word
	}
	w := &cutWriter{ResponseWriter: a.w, left: fault.CutAfter}
	switch {
	case fault.Garbage:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html><body>this is no API</body></html>"))
	case fault.Status != 0:
		if fault.RetryAfter != "" {
			w.Header().Set("Retry-After", fault.RetryAfter)
		}
		writeJSON(w, fault.Status, format.failure(fault))
	case request.Stream:
		a.stream(w, format, format.stream(request, reply), fault)
	default:
		writeJSON(w, http.StatusOK, format.whole(request, reply))
	}
}

func (a answer) stream(w *cutWriter, format api, events []event, fault Fault) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	if a.server.dialect.NoEnd {
		events = events[:len(events)-1]
	}
	for i, e := range events {
		if fault.Hold != nil && !a.held(fault.Hold(i)) {
			panic(http.ErrAbortHandler)
		}
		w.event(e)
		if i > 0 {
			continue
		}
		if fault.InStream {
			w.event(event{"error", format.failure(fault)})
			return
		}
		if !a.wait(fault.Stall) {
			panic(http.ErrAbortHandler)
		}
	}
}

// wait reports whether the client and the server are still there after it.
func (a answer) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	over := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	return a.held(over)
}

// held waits until the channel is closed, and reports whether the client and the server
// are still there then. A nil channel holds nothing.
func (a answer) held(until <-chan struct{}) bool {
	if until == nil {
		return true
	}
	select {
	case <-until:
		return true
	case <-a.r.Context().Done():
		return false
	case <-a.server.closing:
		return false
	}
}

// cutWriter closes the connection when a number of bytes has been written; zero
// is no bound. It flushes whatever it writes.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) Write(data []byte) (int, error) {
	cut := w.left > 0 && len(data) >= w.left
	if cut {
		data = data[:w.left]
	}
	n, err := w.ResponseWriter.Write(data)
	w.left -= min(n, w.left)
	if flusher, ok := w.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
	if cut {
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// event writes an event. Data that is a string is written as it is.
func (w *cutWriter) event(e event) {
	var b bytes.Buffer
	if e.name != "" {
		b.WriteString("event: " + e.name + "\n")
	}
	b.WriteString("data: ")
	if text, ok := e.data.(string); ok {
		b.WriteString(text)
	} else {
		b.Write(encode(e.data))
	}
	b.WriteString("\n\n")
	_, _ = w.Write(b.Bytes()) // the client may have gone
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(body)) // the client may have gone
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("providertest: an answer is not plain data: " + err.Error())
	}
	return data
}
