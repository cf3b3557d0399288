package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/faces/httpapi"
	"github.com/maestro-hive/maestro/internal/ops/control"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

// A RefusedError says that the server refuses who calls: the token is not good, or its roles do not
// allow what is wanted.
type RefusedError struct {
	URL string
	// Nobody: the server does not know the token.
	Nobody bool
	text   string
}

func (e *RefusedError) Error() string {
	if e.Nobody {
		return fmt.Sprintf("the Maestro server at %s does not accept the token: %s", e.URL, e.text)
	}
	return e.text
}

// A BusyError says that a server takes a request later: one with its key is under way, or it has too
// many.
type BusyError struct{ URL, text string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("the Maestro server at %s is busy: %s", e.URL, e.text)
}

// Away reports whether an error is only that a server cannot be reached or is busy: later it may not be.
func Away(err error) bool {
	var away *UnreachableError
	var busy *BusyError
	return errors.As(err, &away) || errors.As(err, &busy)
}

// failed is the error of an answer that is no success, and how long to wait before the request is sent
// again; zero: it should not be.
func (c *Client) failed(got *http.Response) (wait time.Duration, err error) {
	defer got.Body.Close() //nolint:errcheck // only read
	var p httpapi.Problem
	data, err := io.ReadAll(io.LimitReader(got.Body, maxProblem))
	documented := err == nil && json.Unmarshal(data, &p) == nil
	text := p.Text(got.StatusCode)
	after := retryafter.Parse(got.Header, c.now())
	switch status := got.StatusCode; {
	case status >= 300 && status < 400:
		return 0, optionErrorf("%s answers with a redirect to %s; give the address of the server itself", c.base,
			safetext.Line(got.Header.Get("Location")))
	case !documented: // also a server that begins to listen
		return pauses[len(pauses)-1], &UnreachableError{URL: c.base, Err: fmt.Errorf("HTTP status %d without a problem document",
			status)}
	case p.Kind != "":
		if p.Reason == control.NoTemporal {
			// Nothing was done. A server that has just started connects a moment later.
			return pauses[len(pauses)-1], fmt.Errorf("the Maestro server at %s: %w", c.base, p.Err(text))
		}
		return 0, p.Err(text)
	// also if that was often so
	case status == http.StatusUnauthorized, strings.Contains(got.Header.Get("WWW-Authenticate"), "invalid_token"):
		return 0, &RefusedError{URL: c.base, Nobody: true, text: text}
	case status == http.StatusForbidden:
		return 0, &RefusedError{URL: c.base, text: text}
	case status == http.StatusConflict, status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && after > 0:
		return cmp.Or(after, time.Second), &BusyError{URL: c.base, text: text}
	case status == http.StatusServiceUnavailable, status == http.StatusBadGateway, status == http.StatusGatewayTimeout:
		wait = pauses[len(pauses)-1]
		err = &UnreachableError{URL: c.base, Err: errors.New(text)}
	case status == http.StatusUnprocessableEntity, status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge:
		err = control.Problem{Kind: control.Invalid}.Err(text)
	case status == http.StatusNotFound:
		err = control.Problem{Kind: control.NotFound}.Err(text)
	default:
		err = fmt.Errorf("the Maestro server at %s: %s", c.base, strings.TrimSpace(text))
	}
	if got.Request.Method != http.MethodGet {
		wait = 0 // it may have been done, and the server keeps no answer of its own errors
	}
	return wait, err
}
