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

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/wire"
)

const (
	// maxError bounds the body of an error, and maxSecret a secret in it, in bytes.
	maxError, maxSecret = 64 << 10, 16 << 10
	// freeWait is how long a provider may take to begin the answer to a free call.
	freeWait = 30 * time.Second
)

// Why a call to a provider is given up.
var (
	errSilent = errors.New("the provider sends nothing")
	errGone   = errors.New("the program has gone")
)

// upstream is a call to the provider.
type upstream struct {
	key    string
	cancel context.CancelCauseFunc
	timer  *time.Timer
	// stay has the call go on when the program goes.
	stay func() bool
	// response is the beginning of an answer, with its first bytes.
	response *http.Response
	first    []byte
	// err is why there is none: a *[wire.Fault], of which body is the body, the network's error, or a
	// *[failures.Failure] where nothing was sent.
	err  error
	body []byte
}

// send makes a call, and waits for the first bytes of its answer. It is cancelled with the
// attempt, and with the program unless it is told to stay.
func (q *request) send(body []byte) *upstream {
	ctx, cancel := context.WithCancelCause(q.ctx)
	wait := q.gateway.o.FirstByte
	if q.route.Format == "" { // a free call needs no model
		wait = min(wait, freeWait)
	}
	u := &upstream{cancel: cancel, timer: time.AfterFunc(wait, func() { cancel(errSilent) })}
	u.stay = context.AfterFunc(q.r.Context(), func() { cancel(errGone) })
	request, err := q.outgoing(ctx, body, u)
	if err != nil {
		u.err = wire.Unsent{Failure: failures.Failf(failures.Auth, "provider %s: %v", q.provider.Name, err)}
		return u
	}
	response, err := q.gateway.o.Transport.RoundTrip(request)
	if err != nil {
		u.err = cause(ctx, err)
		return u
	}
	response.Header = hideIn(passed(response.Header), u.key)
	if response.StatusCode != http.StatusOK {
		u.fault(response, q.attempt.Mask)
		return u
	}
	u.response, u.first = response, make([]byte, 32<<10)
	n, err := io.ReadAtLeast(response.Body, u.first, 1)
	u.first = u.first[:n]
	if n == 0 {
		u.err = cause(ctx, err)
		_ = response.Body.Close()
	}
	u.timer.Reset(q.gateway.o.Idle)
	return u
}

// cause is why a call broke off, if it was given up.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil {
		return why
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// outgoing is the program's request with the provider's key and address.
func (q *request) outgoing(ctx context.Context, body []byte, u *upstream) (*http.Request, error) {
	var err error
	if q.provider.Key != nil {
		if u.key, err = q.provider.Key(); err != nil {
			return nil, err
		}
	}
	to, err := url.Parse(q.provider.API.Base(q.provider.BaseURL) + q.route.Path)
	if err != nil {
		return nil, fmt.Errorf("base_url: %w", err)
	}
	to.RawQuery = query(q.r.URL)
	request := &http.Request{
		Method: q.r.Method, URL: to, Host: to.Host, Header: passed(q.r.Header), ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if len(body) == 0 {
		request.Body = http.NoBody
	}
	request.Header.Set("Accept-Encoding", "identity") // the meter reads the bytes as they are
	q.provider.API.Authorize(request.Header, u.key)
	return request.WithContext(ctx), nil
}

// parameters are those of a query that pass. Others, of Google's servers, leave out parts of the answer, like its usage.
var parameters = []string{"alt", "api-version", "beta", "after", "after_id", "before_id", "limit", "order", "pageSize", "pageToken"}

// query is the query of a request as far as it passes: its token does not.
func query(from *url.URL) string {
	values := from.Query()
	maps.DeleteFunc(values, func(name string, said []string) bool {
		json := name != "alt" || slices.Equal(said, []string{"sse"}) || slices.Equal(said, []string{"json"})
		return !json || !slices.Contains(parameters, name)
	})
	return values.Encode()
}

// fault reads an error. mask also finds a key that is written with escapes.
func (u *upstream) fault(response *http.Response, mask func(string) string) {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxError+maxSecret)) // what came is enough
	_ = response.Body.Close()
	u.body = []byte(mask(string(hide(body, u.key))))
	u.body = u.body[:min(len(u.body), maxError)] // without a part of a secret at its end
	u.response = response
	if response.StatusCode < 400 { // below 300, the model may have answered
		u.err = &wire.Fault{Status: response.StatusCode, Message: "it redirects or answers without content; set base_url to its address"}
		u.body = nil
		return
	}
	u.err = wire.ReadFault(response.StatusCode, response.Header, u.body)
}

// end frees what the call holds.
func (u *upstream) end() {
	u.stay()
	u.timer.Stop()
	u.cancel(nil)
	if u.response != nil {
		_ = u.response.Body.Close() // read to its end, or given up
	}
}

// tell passes a provider's error on to the program, in the provider's own words where it has some.
func (q *request) tell(u *upstream, f *failures.Failure) {
	if u.response == nil || len(u.body) == 0 || u.response.StatusCode < 400 {
		why := wire.Overloaded
		if f.Category == failures.Auth {
			why = wire.Unauthorized
		} else if f.Final {
			why = wire.NotFound
		}
		q.refuse(why, f.Message, f.RetryAfter.Std())
		return
	}
	for name, values := range u.response.Header {
		q.w.Header()[name] = values
	}
	q.w.WriteHeader(u.response.StatusCode)
	_, _ = q.w.Write(u.body) // the program may have gone
}

// free passes on a request that costs nothing.
func (q *request) free() {
	body, ok := q.body()
	if !ok {
		return
	}
	u := q.send(body)
	defer u.end()
	if u.err != nil {
		q.tell(u, wire.Failure(u.err, q.provider.Name, q.gateway.o.Now()))
		return
	}
	for name, values := range u.response.Header {
		q.w.Header()[name] = values
	}
	rest := io.LimitReader(u.response.Body, q.gateway.o.MaxAnswer)
	if _, err := io.Copy(q.w, io.MultiReader(bytes.NewReader(u.first), rest)); err != nil {
		panic(http.ErrAbortHandler) // the program sees that it broke off
	}
}
