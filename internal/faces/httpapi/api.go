package httpapi

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/maestro-hive/maestro/internal/ops/control"
)

// Prefix begins the path of every operation.
const Prefix = "/api/v1"

// New returns the API: what is below [Prefix], and its description at Prefix/openapi.json. version is
// the program's.
func New(base *control.Base, version string) http.Handler {
	mux, _ := newAPI(base, version)
	mux.HandleFunc(Prefix+"/", noOperation(mux))
	return repeatable(base, mux)
}

// newAPI makes the operations of the table and their description.
func newAPI(base *control.Base, version string) (*http.ServeMux, *huma.OpenAPI) {
	mux := http.NewServeMux()
	api := humago.NewWithPrefix(mux, Prefix, config(version))
	s := &server{api, base, newFollowing()}
	for _, o := range table {
		o.register(s)
	}
	allowNull(api.OpenAPI().Components.Schemas)
	describeProblems(api.OpenAPI().Components.Schemas)
	return mux, api.OpenAPI()
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
			writeProblem(w, http.StatusMethodNotAllowed, "the path "+r.URL.Path+" has no method "+r.Method+", but "+
				strings.Join(allowed, " and "))
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
