package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/models/wire"
)

const (
	// maxCount bounds the answer to a request that counts tokens, in bytes.
	maxCount = 64 << 10
	// freeWait is how long a provider may take to begin the answer to a free call.
	freeWait = 30 * time.Second
)

// Causes of the cancellation of a call to a provider.
var (
	errIdle         = errors.New("the answer makes no progress")
	errDisconnected = errors.New("the program has disconnected")
)

// upstream is a call to the provider.
type upstream struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
	// detach makes the call continue after the program has disconnected.
	detach func() bool
	// response is the header of an answer, and first has its first bytes.
	response *http.Response
	first    []byte
	// err is why there is no answer: a *[wire.Fault] with the body in body, a network error, or a
	// *[failures.Failure] if nothing was sent.
	err  error
	body []byte
}

// send makes a call, and waits for the first bytes of its answer. Its timer runs until the first token. The call is
// cancelled with the attempt and, unless it is detached, with the program's request.
func (q *request) send(content []byte) *upstream {
	ctx, cancel := context.WithCancelCause(q.ctx)
	wait := q.gateway.o.FirstToken
	if q.route.Format == "" { // a free call needs no model
		wait = min(wait, freeWait)
	}
	u := &upstream{cancel: cancel, timer: time.AfterFunc(wait, func() { cancel(errIdle) })}
	u.detach = context.AfterFunc(q.r.Context(), func() { cancel(errDisconnected) })
	request, err := q.outgoing(ctx, content)
	if err != nil {
		u.err = wire.Unsent{Err: failures.Failf(failures.Auth, "provider %s: %v", q.provider.Name, err)}
		return u
	}
	response, err := wire.Transport{RoundTripper: q.gateway.o.Transport, Key: q.provider.secret}.RoundTrip(request)
	if err != nil {
		u.err = cause(ctx, err)
		return u
	}
	response.Header = passedHeaders(response.Header)
	if !wire.Answered(response.StatusCode) {
		u.response = response
		u.err, u.body = wire.FaultOf(response, q.attempt.Mask)
		return u
	}
	opened, err := wire.Open(q.route.Format, response)
	n := 0
	if err == nil {
		response.Body = body{wire.WithoutKey(q.route.Format, response, q.provider.secret, opened), response.Body}
		u.response, u.first = response, make([]byte, 32<<10)
		n, err = io.ReadAtLeast(response.Body, u.first, 1)
		u.first = u.first[:n]
	}
	if n == 0 {
		u.err = cause(ctx, err)
		_ = response.Body.Close()
	}
	return u
}

// body is a body of which a part was read before.
type body struct {
	io.Reader
	io.Closer
}

// cause returns the cause of a cancelled call, or the error of one that was not cancelled.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		if unsent := (wire.Unsent{}); errors.As(err, &unsent) {
			return wire.Unsent{Err: why}
		}
		return why
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// outgoing returns the program's request with the provider's key and address.
func (q *request) outgoing(ctx context.Context, body []byte) (*http.Request, error) {
	if q.provider.KeyError != nil {
		return nil, q.provider.KeyError
	}
	to, err := url.Parse(q.provider.API.Base(q.provider.BaseURL) + q.route.Path)
	if err != nil {
		return nil, fmt.Errorf("base_url: %w", err)
	}
	to.RawQuery = query(q.r.URL)
	// The transport can send the body again: a server that shuts down may refuse a call that it has not begun.
	request, err := http.NewRequestWithContext(ctx, q.r.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = passedHeaders(q.r.Header)
	request.Header.Set("Accept-Encoding", "identity") // the meter reads the bytes as they are
	q.provider.API.Authorize(request.Header, q.provider.Key)
	return request, nil
}

// passedParameters are the permitted query parameters. Others, of Google's servers, remove parts of the answer, like its usage.
var passedParameters = []string{
	"alt", "api-version", "beta", "after", "after_id", "before_id", "limit", "order", "pageSize",
	"pageToken",
}

// query returns the permitted part of a request's query, which is without the token.
func query(from *url.URL) string {
	values := from.Query()
	maps.DeleteFunc(values, func(name string, said []string) bool {
		json := name != "alt" || slices.Equal(said, []string{"sse"}) || slices.Equal(said, []string{"json"})
		return !json || !slices.Contains(passedParameters, name)
	})
	return values.Encode()
}

// close frees the resources of the call.
func (u *upstream) close() {
	u.detach()
	u.timer.Stop()
	u.cancel(nil)
	if u.response != nil {
		_ = u.response.Body.Close() // read to its end, or cancelled
	}
}

// passError passes a provider's error to the program, with the provider's own body if there is one.
func (q *request) passError(u *upstream, f *failures.Failure) {
	if u.response == nil || len(u.body) == 0 || u.response.StatusCode < 400 {
		why := wire.Overloaded
		switch f.Category { //nolint:exhaustive // others may be over at the next try
		case failures.Auth:
			why = wire.Unauthorized
		case failures.InvalidRequest:
			why = wire.NotFound
		}
		q.refuse(why, f.Message, f.RetryAfter.Std())
		return
	}
	for name, values := range u.response.Header {
		q.w.Header()[name] = values
	}
	q.w.WriteHeader(u.response.StatusCode)
	_, _ = q.w.Write(u.body) // the program may have disconnected
}

// serveFree passes on a request that costs nothing.
func (q *request) serveFree() {
	body, ok := q.body()
	if !ok {
		return
	}
	u := q.send(body)
	defer u.close()
	if u.err != nil {
		q.passError(u, wire.Failure(u.err, q.provider.Name, q.gateway.o.Now()))
		return
	}
	for name, values := range u.response.Header {
		q.w.Header()[name] = values
	}
	rest := io.LimitReader(u.response.Body, q.gateway.o.MaxAnswer)
	if _, err := io.Copy(q.w, io.MultiReader(bytes.NewReader(u.first), rest)); err != nil {
		panic(http.ErrAbortHandler) // the program gets a connection error
	}
}
