package llm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/maestro-hive/maestro/internal/wire"
)

const (
	// maxAnswer bounds the body of an answer, and maxErrorBody that of an error, in bytes.
	maxAnswer    = 64 << 20
	maxErrorBody = 64 << 10
)

// formats are the formats of the answers of the APIs.
var formats = map[wire.API]wire.Format{wire.Anthropic: wire.Messages, wire.OpenAI: wire.ChatCompletions}

// Received is what was received of an answer.
type Received struct {
	// Document is the body of an answer that is one document, although a stream was requested; nil: it is a stream.
	Document []byte

	meter *wire.Meter
}

// Facts returns what the answer has stated so far. The libraries read only a part of it.
func (r *Received) Facts() wire.Facts {
	if r.meter == nil {
		return wire.Facts{}
	}
	return r.meter.Facts()
}

// AtEnd is Facts after the last part was read. broken is why the answer has no regular end; nil if it has one.
func (r *Received) AtEnd(broken error) wire.Facts {
	if r.meter == nil || broken != nil {
		return r.Facts()
	}
	return r.meter.End()
}

// Progress is the size of the content so far.
func (r *Received) Progress() int64 {
	if r.meter == nil {
		return 0
	}
	return r.meter.Progress()
}

// transport sends a call. An error of the provider, or a body that is no answer, is a *[wire.Fault]: the libraries
// keep only a part of it.
type transport struct {
	next     http.RoundTripper
	format   wire.Format
	received *Received
}

// RoundTrip sends a request.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	switch {
	case response.StatusCode >= http.StatusBadRequest:
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) // a part is enough
		err = wire.ReadFault(response.StatusCode, response.Header, text)
	case wire.Answered(response.StatusCode):
		err = t.open(response)
	}
	if err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	return response, nil
}

// open begins to meter an answer. It reads one that is a document.
func (t transport) open(response *http.Response) error {
	content, err := wire.Open(t.format, response)
	if err != nil {
		return err
	}
	body := bufio.NewReader(&boundedReader{from: content, left: maxAnswer})
	first, err := firstByte(body)
	if err != nil {
		return err
	}
	kind := response.Header.Get("Content-Type")
	if first != '{' {
		if first == 'd' || first == 'e' || first == ':' { // events, whatever the server calls them
			kind = "text/event-stream"
		}
		t.meter(kind, response)
		response.Body = teeBody{io.TeeReader(body, t.received.meter), response.Body}
		return nil
	}
	t.meter("application/json", response)
	document, err := io.ReadAll(io.TeeReader(body, t.received.meter))
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	t.received.Document, response.Body = document, io.NopCloser(bytes.NewReader(nil))
	return nil
}

func (t transport) meter(kind string, response *http.Response) {
	t.received.meter = wire.NewMeter(t.format, 1, kind)
	t.received.meter.Header(response.Header)
}

// firstByte returns the first byte that is not space. Servers send spaces while the model works.
func firstByte(r *bufio.Reader) (byte, error) {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if b != ' ' && b != '\t' && b != '\r' && b != '\n' {
			return b, r.UnreadByte()
		}
	}
}

// teeBody is a body that is metered while it is read.
type teeBody struct {
	io.Reader
	io.Closer
}

// boundedReader bounds the size of an answer.
type boundedReader struct {
	from io.Reader
	left int64
}

var errTooLong = errors.New("response too large")

// Read reads the next part.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
