package httpapi_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/access"
)

// needs says which permission an operation takes, by its method and path. Those that read take
// [access.View], and all others have to be here.
var needs = map[string]access.Permission{
	"get /audit":  access.Admin,
	"get /tokens": access.Admin, "post /tokens": access.Admin, "delete /tokens/{name}": access.Admin,
	"get /people": access.Admin, "post /people": access.Admin, "get /people/{name}": access.Admin, "delete /people/{name}": access.Admin,
	"put /people/{name}/roles": access.Admin, "post /people/{name}/reset": access.Admin,
	"get /hooks": access.Admin, "post /hooks": access.Admin, "delete /hooks/{name}": access.Admin,
	"post /sessions/{session}/checkpoints/verify":        access.Operate,
	"post /sessions/{session}/cancel":                    access.Operate,
	"post /sessions/{session}/budget/raise":              access.Operate,
	"post /sessions/{session}/requests/{request}/answer": access.Operate, // by action: an approval takes another
	"post /budgets/{name}/raise":                         access.Operate,
	"post /sessions/{session}/calls/settle":              access.Operate,
	"post /sessions/{session}/calls/{call}/settle":       access.Operate,
	"post /breakers/{name}/trip":                         access.Operate,
	"post /breakers/{name}/reset":                        access.Operate,
	"put /teams/{name}":                                  access.Admin, // it decides what others run
	"delete /teams/{name}":                               access.Admin,
	"post /sessions":                                     access.Operate, "post /plan": access.Operate, "post /workspaces": access.Operate, "post /workspaces/texts": access.Operate,
	"post /sessions/{session}/resume": access.Operate, "post /sessions/{session}/resume/preview": access.Operate,
	"post /sessions/{session}/fork": access.Operate, "post /sessions/{session}/fork/preview": access.Operate,
}

// bodies are what operations take, so that nothing but the role is wrong.
var bodies = map[string]map[string]any{
	"post /tokens": {"name": "ci", "roles": []string{"viewer"}},
	"post /people": {"name": "bob", "roles": []string{"viewer"}}, "put /people/{name}/roles": {"roles": []string{"viewer"}},
	"post /hooks": {"name": "tickets", "team": "web"},
	"post /sessions/{session}/requests/{request}/answer": {"action": "retry"},
	"post /sessions":                               {"team": map[string]any{"file": soloTeam}, "requirement": "Build it."},
	"post /plan":                                   {"team": map[string]any{"file": soloTeam}},
	"post /workspaces/texts":                       {"team": map[string]any{"file": soloTeam}, "files": map[string]any{"a.txt": "a"}},
	"post /sessions/{session}/fork":                {"from": "design"},
	"post /sessions/{session}/fork/preview":        {"from": "design"},
	"post /breakers/{name}/trip":                   {"why": "test"},
	"post /breakers/{name}/reset":                  {},
	"put /teams/{name}":                            webTeam,
	"post /budgets/{name}/raise":                   {"tokens": 1},
	"post /sessions/{session}/calls/settle":        {"as": "nothing"},
	"post /sessions/{session}/calls/{call}/settle": {"as": "nothing"},
	"post /sessions/{session}/budget/raise":        {"tokens": 1},
}

// webTeam is a team file.
var webTeam = map[string]any{
	"version": 1, "name": "web",
	"personas": map[string]any{"ann": map[string]any{"role": "Writer", "agent": "coder", "instructions": "Write it."}},
	"phases":   []any{map[string]any{"name": "design", "personas": []string{"ann"}}, map[string]any{"name": "build", "personas": []string{"ann"}}},
}

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

// required is a query with the parameters that an operation cannot do without.
func required(described any) string {
	query := url.Values{}
	if described.(map[string]any)["operationId"] == "upload-workspace" { // a team or a session
		query.Set("team", "web")
	}
	parameters, _ := described.(map[string]any)["parameters"].([]any)
	for _, p := range parameters {
		if p := p.(map[string]any); p["in"] == "query" && p["required"] == true {
			query.Set(p["name"].(string), "1")
		}
	}
	return "?" + query.Encode()
}

// TestEveryRoleAtEveryOperation has each role call each operation of the OpenAPI document.
func TestEveryRoleAtEveryOperation(t *testing.T) {
	t.Parallel()
	h := newService(t)
	h.session("one", "web", time.Now(), nil)
	var api map[string]any
	h.call("GET", "/openapi.json", nil).read(t, &api)
	called := 0
	for path, operations := range api["paths"].(map[string]any) {
		for method, described := range operations.(map[string]any) {
			name := method + " " + path
			if path == "/events" {
				continue // a stream; what it tells is tested apart
			}
			permission, known := needs[name]
			if !known {
				require.Equal(t, "get", method, "which permission does %s need?", name)
				permission = access.View
			}
			called++
			for _, role := range append(access.AllRoles, "") {
				h.actor = access.Actor{}
				if role != "" {
					h.actor = access.Actor{Name: "ann", Roles: access.Roles{access.AllTeams: {role}}}
				}
				at := strings.NewReplacer("{session}", "one", "{phase}", "design", "{persona}", "ann", "{name}", "web").Replace(path)
				at = placeholder.ReplaceAllString(at, "1") + required(described)
				var body any
				if bodies[name] != nil {
					body = bodies[name]
				}
				got := h.call(strings.ToUpper(method), at, body)
				switch {
				case role == "":
					require.Equal(t, http.StatusUnauthorized, got.status, "nobody: %s: %s", name, got.body)
				case h.actor.Roles.Allow(permission, "web"):
					require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.status, "%s: %s: %s", role, name, got.body)
				default:
					require.Equal(t, http.StatusForbidden, got.status, "%s: %s: %s", role, name, got.body)
				}
			}
		}
	}
	require.Greater(t, called, 12)
}
