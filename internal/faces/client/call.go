package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/faces/httpapi"
)

// Call calls an operation of the server.
func Call[I, O any](ctx context.Context, c *Client, o httpapi.Operation[I, O], in I) (doc O, err error) {
	r, err := requestOf(o.Route, in)
	if err != nil {
		return doc, err
	}
	return ask[O](ctx, c, r)
}

// Upload sends an archive to the server. archive opens it, for each try anew.
func Upload[I, O any](ctx context.Context, c *Client, o httpapi.Upload[I, O], in I, archive func() (io.Reader, error)) (doc O,
	err error,
) {
	r, err := requestOf(o.Route, in)
	if err != nil {
		return doc, err
	}
	r.kind, r.body = "application/octet-stream", archive
	return ask[O](ctx, c, r)
}

// Download reads bytes of the server.
func Download[I any](ctx context.Context, c *Client, o httpapi.Download[I], in I, read func(io.Reader) error) error {
	r, err := requestOf(o.Route, in)
	if err != nil {
		return err
	}
	got, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer got.Body.Close() //nolint:errcheck // only read
	body := &remembering{ReadCloser: got.Body}
	err = read(body)
	if lost := body.failed.Load(); err != nil && lost != nil && ctx.Err() == nil {
		err = &UnreachableError{URL: c.base, Err: *lost}
	}
	return err
}

// ask sends a request, and decodes the document of the answer.
func ask[T any](ctx context.Context, c *Client, in request) (doc T, err error) {
	got, err := c.do(ctx, in)
	if err != nil {
		return doc, err
	}
	defer got.Body.Close() //nolint:errcheck // only read
	body := &io.LimitedReader{R: got.Body, N: maxDocument + 1}
	err = json.NewDecoder(body).Decode(&doc)
	switch {
	case body.N <= 0:
		err = fmt.Errorf("the Maestro server at %s: the answer to %s %s is larger than %d MiB", c.base, in.method, in.path,
			maxDocument>>20)
	case err != nil && ctx.Err() != nil:
		err = ctx.Err()
	case err != nil:
		err = fmt.Errorf("the Maestro server at %s: the answer to %s %s cannot be read: %w", c.base, in.method, in.path, err)
	}
	return doc, err
}

// requestOf is the request of an operation with an input, by the tags of the input's fields.
func requestOf(o httpapi.Route, in any) (request, error) {
	r := request{method: o.Method, path: o.Path, query: url.Values{}}
	v := reflect.ValueOf(in)
	for _, f := range reflect.VisibleFields(v.Type()) {
		value := v.FieldByIndex(f.Index)
		query, explode, _ := strings.Cut(f.Tag.Get("query"), ",")
		switch {
		case f.Tag.Get("path") != "":
			r.path = strings.ReplaceAll(r.path, "{"+f.Tag.Get("path")+"}", httpapi.Segment(text(value)))
		case f.Name == "Body":
			if value.Kind() == reflect.Pointer && value.IsNil() {
				continue
			}
			data, err := json.Marshal(value.Interface())
			if err != nil {
				return r, err
			}
			r.kind, r.body = "application/json", func() (io.Reader, error) { return bytes.NewReader(data), nil }
		case value.IsZero(): // not given
		case query != "" && explode != "":
			for i := range value.Len() {
				r.query.Add(query, text(value.Index(i)))
			}
		case query != "":
			r.query.Set(query, text(value))
		}
	}
	return r, nil
}

// text is a value in a path or a query.
func text(v reflect.Value) string {
	if at, ok := v.Interface().(time.Time); ok {
		return at.UTC().Format(time.RFC3339Nano)
	}
	if v.Kind() != reflect.Slice {
		return fmt.Sprint(v.Interface())
	}
	var all []string
	for i := range v.Len() {
		all = append(all, text(v.Index(i)))
	}
	return strings.Join(all, ",")
}

// SessionPage is the address of the page of a session.
func (c *Client) SessionPage(sessionID string) string {
	return c.base + "/sessions/" + httpapi.Segment(sessionID)
}
