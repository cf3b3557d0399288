package llm

import (
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

// transport sends a call. An error of the provider, or a body that is no answer, is a *[wire.Fault]: the libraries
// keep only a part of it.
type transport struct {
	next   http.RoundTripper
	format wire.Format
}

// RoundTrip sends a request.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) // a part is enough
		_ = response.Body.Close()
		return nil, wire.ReadFault(response.StatusCode, response.Header, text)
	}
	if response.StatusCode == http.StatusOK {
		content, err := wire.Open(t.format, response)
		if err != nil {
			_ = response.Body.Close()
			return nil, err
		}
		response.Body = &boundedBody{Closer: response.Body, from: content, left: maxAnswer}
	}
	return response, nil
}

// boundedBody bounds the size of an answer.
type boundedBody struct {
	io.Closer
	from io.Reader
	left int64
}

var errTooLong = errors.New("response too large")

// Read reads the next part.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
