package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/maestro-hive/maestro/internal/control"
)

// Prefix begins the path of every operation.
const Prefix = "/api/v1"

// Options are the parts of the API.
type Options struct {
	Base *control.Base
	// Feed reports which sessions change.
	Feed   *control.Feed
	Health *control.Health
	// Version is the program's.
	Version string
}

// New returns the API: what is below [Prefix], and its description at Prefix/openapi.json.
func New(o Options) http.Handler {
	mux := http.NewServeMux()
	api := humago.NewWithPrefix(mux, Prefix, config(o.Version))
	sessions(api, control.Sessions{Base: o.Base})
	requests(api, control.Requests{Base: o.Base})
	money(api, control.Money{Base: o.Base})
	running := newFollowing()
	attempts(api, running, control.Attempts{Base: o.Base})
	pool(api, control.Pool{Base: o.Base})
	who(api, control.Access{Base: o.Base})
	hooks(api, control.Hooks{Base: o.Base})
	alerts(api, control.Alerts{Base: o.Base})
	reviews(api, control.Reviews{Base: o.Base})
	checkpoints(api, control.Checkpoints{Base: o.Base})
	teams(api, control.Teams{Base: o.Base})
	history(api, control.Sessions{Base: o.Base}, control.Money{Base: o.Base})
	health(api, o.Health)
	starts(api, control.Starts{Base: o.Base})
	events(api, running, o.Feed)
	allowNull(api.OpenAPI().Components.Schemas)
	describeProblems(api.OpenAPI().Components.Schemas)
	mux.HandleFunc(Prefix+"/", noOperation(mux))
	return repeatable(o.Base, mux)
}

// noOperation answers requests without an operation, and lists the methods of the path.
func noOperation(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if _, pattern := mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != Prefix+"/" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			writeProblem(w, http.StatusMethodNotAllowed, "the path "+r.URL.Path+" has no method "+r.Method+", but "+strings.Join(allowed, " and "))
			return
		}
		writeProblem(w, http.StatusNotFound, "no operation has the path "+r.URL.Path+"; "+Prefix+"/openapi.json lists all")
	}
}

func config(version string) huma.Config {
	c := huma.DefaultConfig("Maestro", version)
	c.Components = &huma.Components{
		Schemas: newRegistry(),
		SecuritySchemes: map[string]*huma.SecurityScheme{
			"token": {Type: "http", Scheme: "bearer", Description: "a token of `maestro token create`"},
		},
	}
	c.Security = []map[string][]string{{"token": {}}}
	c.Info.Description = "What the command line can do, for programs. Documents are those of `-o json`."
	c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", nil // documents have no $schema, and pages load no script of others
	c.RejectUnknownQueryParameters = true
	return c
}

// document is the answer of an operation.
type document[T any] struct{ Body T }

// none is the input of an operation that takes none.
type none struct{}

// ofSession is the input of an operation on a session.
type ofSession struct {
	Session string `path:"session" maxLength:"200" doc:"the session's id"`
}

// operation describes an operation by its method and path, its id and what it does.
func operation(methodAndPath, id, summary string) huma.Operation {
	method, path, _ := strings.Cut(methodAndPath, " ")
	tag, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return huma.Operation{Method: method, Path: path, OperationID: id, Summary: summary, Tags: []string{tag}}
}

// register adds an operation whose answer is a document.
func register[I, O any](api huma.API, op huma.Operation, f func(context.Context, *I) (O, error)) {
	if op.Method != http.MethodGet {
		op.Parameters = append(op.Parameters, idempotencyParameter())
	}
	op.BodyReadTimeout = -1 // the guard paces bodies; a deadline that stays would end the request
	huma.Register(api, op, func(ctx context.Context, in *I) (*document[O], error) {
		out, err := f(ctx, in)
		if err != nil {
			return nil, problemOf(ctx, err)
		}
		return &document[O]{out}, nil
	})
}
