package httpapi

import (
	"context"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/ops/control"
)

// Route is where an operation is, and what it does, for the API and its description.
type Route struct {
	Method, Path, Name, Doc string
	// agents are the inputs that agents do not choose, as a query; nil if agents do not use it.
	agents *string
	// secret: its answer has a secret.
	secret bool
}

// mark says something more of an operation.
type mark func(*Route)

// withSecret says that an operation's answer has a secret: it is not stored, so that no key of idempotency counts.
func withSecret(r *Route) { r.secret = true }

func (r Route) where() Route { return r }

// Operation is an operation that answers with a document. The tags of the input's fields say how a
// request has them: in its path, its query, or, in a field Body, as JSON.
type Operation[I, O any] struct {
	Route
	// Do is the operation in this process.
	Do func(context.Context, *control.Base, I) (O, error)
}

// Upload is an operation that takes a stream of bytes.
type Upload[I, O any] struct {
	Route
	Do func(context.Context, *control.Base, I, io.Reader) (O, error)
}

// Download is an operation that answers with a stream of bytes.
type Download[I any] struct {
	Route
	ContentType string
	Do          func(context.Context, *control.Base, I) (control.Download, error)
}

// Stream is an operation that answers with server-sent events.
type Stream struct {
	Route
	Description string
	Do          func(context.Context, *control.Base, control.ChangesInput) iter.Seq2[control.Change, error]
}

// operation is an entry of the table, of any kind.
type operation interface {
	register(*server)
	where() Route
}

// table is all operations, in the order in which they are declared.
var table []operation

// add puts an operation into the table.
func add[T operation](o T) T {
	table = append(table, o)
	return o
}

// noun is a part of the control plane.
type noun interface{ ~struct{ *control.Base } }

// route reads METHOD PATH.
func route(methodAndPath, name, doc string) Route {
	method, path, _ := strings.Cut(methodAndPath, " ")
	return Route{Method: method, Path: path, Name: name, Doc: doc}
}

// method is a method of a part of the control plane, and named one that takes a name, too.
type (
	method[N noun, I, O any] func(N, context.Context, I) (O, error)
	named[N noun, B, O any]  func(N, context.Context, string, B) (O, error)
)

// on runs a method on a control plane.
func (do method[N, I, O]) on(ctx context.Context, b *control.Base, in I) (O, error) {
	return do(N{b}, ctx, in)
}

// document adds an operation that answers with a document.
func document[N noun, I, O any](methodAndPath, name, doc string, do method[N, I, O], marks ...mark) Operation[I, O] {
	r := route(methodAndPath, name, doc)
	for _, set := range marks {
		set(&r)
	}
	return add(Operation[I, O]{r, do.on})
}

// download adds an operation that answers with a stream of bytes.
func download[N noun, I any](methodAndPath, name, doc, contentType string, do method[N, I, control.Download]) Download[I] {
	return add(Download[I]{route(methodAndPath, name, doc), contentType, do.on})
}

// None is the input of an operation that takes none.
type None struct{}

// none is a method without an input.
func none[N noun, O any](do func(N, context.Context) (O, error)) method[N, None, O] {
	return func(n N, ctx context.Context, _ None) (O, error) { return do(n, ctx) }
}

// Body is an input that is a body.
type Body[B any] struct{ Body B }

// body is a method whose input is a body.
func body[N noun, B, O any](do method[N, B, O]) method[N, Body[B], O] {
	return func(n N, ctx context.Context, in Body[B]) (O, error) { return do(n, ctx, in.Body) }
}

// OfSession names a session.
type OfSession struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
}

// ofSession is a method that takes the id of a session.
func ofSession[N noun, O any](do method[N, string, O]) method[N, OfSession, O] {
	return func(n N, ctx context.Context, in OfSession) (O, error) { return do(n, ctx, in.Session) }
}

// SessionBody names a session, and has a body.
type SessionBody[B any] struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
	Body    B
}

// sessionBody is a method that takes the id of a session and a body.
func sessionBody[N noun, B, O any](do named[N, B, O]) method[N, SessionBody[B], O] {
	return func(n N, ctx context.Context, in SessionBody[B]) (O, error) { return do(n, ctx, in.Session, in.Body) }
}

// sessionOption is like sessionBody where the body may be left out.
func sessionOption[N noun, B, O any](do named[N, B, O]) method[N, SessionBody[*B], O] {
	return func(n N, ctx context.Context, in SessionBody[*B]) (O, error) {
		if in.Body == nil {
			in.Body = new(B)
		}
		return do(n, ctx, in.Session, *in.Body)
	}
}

// OfName names something that is not a session.
type OfName struct {
	Name string `path:"name" maxLength:"100"`
}

// ofName is a method that takes a name.
func ofName[N noun, O any](do method[N, string, O]) method[N, OfName, O] {
	return func(n N, ctx context.Context, in OfName) (O, error) { return do(n, ctx, in.Name) }
}

// NameBody names something that is not a session, and has a body.
type NameBody[B any] struct {
	Name string `path:"name" maxLength:"100"`
	Body B
}

// nameBody is a method that takes a name and a body.
func nameBody[N noun, B, O any](do named[N, B, O]) method[N, NameBody[B], O] {
	return func(n N, ctx context.Context, in NameBody[B]) (O, error) { return do(n, ctx, in.Name, in.Body) }
}

// maxBody is the largest body that is read, in bytes; the guard permits less to most requests. A team
// file that is larger than such a file may be is refused with the reason.
const maxBody = 2 << 20

// server is what requests of operations need.
type server struct {
	api  huma.API
	base *control.Base
	// streams are those that are followed now.
	streams following
}

// described is the operation in the API's description.
func (r Route) described() huma.Operation {
	tag, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
	op := huma.Operation{Method: r.Method, Path: r.Path, OperationID: r.Name, Summary: r.Doc, Tags: []string{tag}}
	if r.Method != http.MethodGet && !r.secret {
		op.Parameters = append(op.Parameters, idempotencyParameter())
	}
	op.BodyReadTimeout = -1 // the guard paces bodies; a deadline that stays would end the request
	op.MaxBodyBytes = maxBody
	return op
}

// answers describes an answer that is no document of JSON.
func answers(description, contentType string, schema *huma.Schema) map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: description,
		Content:     map[string]*huma.MediaType{contentType: {Schema: schema}},
	}}
}

// binary is the schema of bytes.
func binary() *huma.Schema { return &huma.Schema{Type: huma.TypeString, Format: "binary"} }

// asDocument is an answer of an operation.
type asDocument[T any] struct{ Body T }

func (o Operation[I, O]) register(s *server) {
	huma.Register(s.api, o.described(), func(ctx context.Context, in *I) (*asDocument[O], error) {
		out, err := o.Do(ctx, s.base, *in)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return &asDocument[O]{out}, nil
	})
}

// archiveKey is the key of the bytes of an upload in a context.
type archiveKey struct{}

// register adds an operation whose bytes are read as they come.
func (o Upload[I, O]) register(s *server) {
	op := o.described()
	content := map[string]*huma.MediaType{"application/octet-stream": {Schema: binary()}}
	op.RequestBody = &huma.RequestBody{Required: true, Description: "the archive, 512 MiB at most", Content: content}
	op.Middlewares = huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		next(huma.WithValue(ctx, archiveKey{}, ctx.BodyReader()))
	}}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*asDocument[O], error) {
		archive, _ := ctx.Value(archiveKey{}).(io.Reader)
		out, err := o.Do(ctx, s.base, *in, archive)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return &asDocument[O]{out}, nil
	})
}
