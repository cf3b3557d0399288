package providertest

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
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
	if fault.Reset == ResetBefore || fault.Reset == ResetHeaders {
		a.reset(fault.Reset)
	}
	w := &cutWriter{ResponseWriter: a.w, left: fault.CutAfter}
	for name, values := range fault.Header {
		w.Header()[name] = values
	}
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
		a.stream(w, format, request, reply)
	default:
		a.server.serve(request.N, Served{Usage: reply.Usage})
		writeJSON(w, http.StatusOK, format.whole(request, reply))
		a.server.serve(request.N, Served{Usage: reply.Usage, Whole: true})
	}
}

// reset ends the connection with a reset.
func (a answer) reset(where Reset) {
	conn, _, err := http.NewResponseController(a.w).Hijack()
	if err != nil {
		panic("providertest: " + err.Error())
	}
	if where == ResetHeaders {
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/ev")) // the client may have gone
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the default closes it, too
	}
	_ = conn.Close()
	panic(http.ErrAbortHandler)
}

func (a answer) stream(w *cutWriter, format api, request Request, reply Reply) {
	fault, events := reply.Fault, format.stream(request, reply)
	if g, ok := format.(geminiAPI); ok && !strings.Contains(request.Query, "alt=sse") {
		a.list(w, g, request, reply)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	if fault.Reset == ResetBody {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(a.w).Flush() // a recorder cannot
		panic(http.ErrAbortHandler)
	}
	for i, e := range events {
		if fault.Hold != nil && !a.held(fault.Hold(i)) {
			panic(http.ErrAbortHandler)
		}
		if fault.Flood > 0 && i == len(events)-1 {
			a.flood(w, events[len(events)/2], fault.Flood)
		}
		a.server.serve(request.N, served(reply.Usage, i+1, len(events)))
		w.event(e)
		if i > 0 {
			continue
		}
		if fault.InStream {
			w.event(format.inStream(fault))
			return
		}
		if !a.wait(fault.Stall) {
			panic(http.ErrAbortHandler)
		}
	}
}

// served is what a stream has cost of which so many events were sent.
func served(whole cost.Usage, sent, of int) Served {
	if sent == of {
		return Served{Usage: whole, Whole: true}
	}
	whole.OutputTokens = whole.OutputTokens * int64(sent) / int64(of)
	whole.ReasoningTokens = min(whole.ReasoningTokens, whole.OutputTokens)
	return Served{Usage: whole}
}

// flood repeats an event.
func (a answer) flood(w *cutWriter, e event, size int64) {
	var one bytes.Buffer
	writeEvent(&one, e)
	many := bytes.Repeat(one.Bytes(), 1+(64<<10)/one.Len())
	for sent := int64(0); sent < size; sent += int64(len(many)) {
		if n, err := w.Write(many); err != nil || n < len(many) || a.r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// list streams an answer of Gemini as a list of documents.
func (a answer) list(w *cutWriter, g geminiAPI, request Request, reply Reply) {
	w.Header().Set("Content-Type", "application/json")
	events := g.stream(request, reply)
	for i, e := range events {
		before := ",\r\n"
		if i == 0 {
			before = "["
		}
		a.server.serve(request.N, served(reply.Usage, i+1, len(events)))
		_, _ = w.Write(append([]byte(before), encode(e.data)...)) // the client may have gone
	}
	if hold := reply.Fault.Hold; hold != nil && !a.held(hold(len(events))) {
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write([]byte("]"))
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
	writeEvent(&b, e)
	_, _ = w.Write(b.Bytes()) // the client may have gone
}

func writeEvent(b *bytes.Buffer, e event) {
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
