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

// document is a body.
type document = map[string]any

// needs says which permission an operation takes, by its method and path, and a body with which nothing but the role can be
// wrong. All operations have to be here but those that read, and that take [access.View].
var needs = map[string]struct {
	permission access.Permission
	body       document
}{
	"get /audit":                {access.Admin, nil},
	"get /tokens":               {access.Admin, nil},
	"post /tokens":              {access.Admin, document{"name": "ci", "roles": []string{"viewer"}}},
	"delete /tokens/{name}":     {access.Admin, nil},
	"get /people":               {access.Admin, nil},
	"post /people":              {access.Admin, document{"name": "bob", "roles": []string{"viewer"}}},
	"get /people/{name}":        {access.Admin, nil},
	"delete /people/{name}":     {access.Admin, nil},
	"put /people/{name}/roles":  {access.Admin, document{"roles": []string{"viewer"}}},
	"post /people/{name}/reset": {access.Admin, nil},
	"get /hooks":                {access.Admin, nil},
	"post /hooks":               {access.Admin, document{"name": "tickets", "team": "web"}},
	"delete /hooks/{name}":      {access.Admin, nil},
	"post /sessions/{session}/checkpoints/verify": {access.Operate, nil},
	"post /sessions/{session}/cancel":             {access.Operate, nil},
	"post /sessions/{session}/budget/raise":       {access.Operate, document{"tokens": 1}},
	// by action: an approval takes another
	"post /sessions/{session}/requests/{request}/answer": {access.Operate, document{"action": "retry"}},
	"post /budgets/{name}/raise":                         {access.Operate, document{"tokens": 1}},
	"post /sessions/{session}/calls/settle":              {access.Operate, document{"as": "nothing"}},
	"post /sessions/{session}/calls/{call}/settle":       {access.Operate, document{"as": "nothing"}},
	"post /breakers/{name}/trip":                         {access.Operate, document{"why": "test"}},
	"post /breakers/{name}/reset":                        {access.Operate, document{}},
	"put /teams/{name}":                                  {access.Admin, webTeam}, // it decides what others run
	"delete /teams/{name}":                               {access.Admin, nil},
	"post /sessions": {
		access.Operate,
		document{"team": document{"file": soloTeam}, "requirement": "Build it."},
	},
	"post /plan":       {access.Operate, document{"team": document{"file": soloTeam}}},
	"post /workspaces": {access.Operate, nil},
	"post /workspaces/texts": {
		access.Operate,
		document{"team": document{"file": soloTeam}, "files": document{"a.txt": "a"}},
	},
	"post /sessions/{session}/resume":         {access.Operate, nil},
	"post /sessions/{session}/deliver":        {access.Operate, nil},
	"post /sessions/{session}/resume/preview": {access.Operate, nil},
	"post /sessions/{session}/fork":           {access.Operate, document{"from": "design"}},
	"post /sessions/{session}/fork/preview":   {access.Operate, document{"from": "design"}},
}

// webTeam is a team file.
var webTeam = document{
	"version": 1, "name": "web",
	"personas": document{"ann": document{"role": "Writer", "agent": "coder", "instructions": "Write it."}},
	"phases": []any{
		document{"name": "design", "personas": []string{"ann"}},
		document{"name": "build", "personas": []string{"ann"}},
	},
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
	api := read[map[string]any](t, h.call("GET", "/openapi.json", nil))
	called := 0
	for path, operations := range api["paths"].(map[string]any) {
		for method, described := range operations.(map[string]any) {
			name := method + " " + path
			if path == "/events" {
				continue // a stream; what it tells is tested apart
			}
			need, known := needs[name]
			if !known {
				require.Equal(t, "get", method, "which permission and body does %s need?", name)
				need.permission = access.View
			}
			called++
			for _, role := range append(access.AllRoles, "", "elsewhere") {
				h.actor = access.Actor{}
				switch role {
				case "":
				case "elsewhere":
					h.actor = access.Actor{Name: "eve", Roles: access.Roles{"api": {access.RoleAdmin}}}
				default:
					h.actor = access.Actor{Name: "ann", Roles: access.Roles{access.AllTeams: {role}}}
				}
				at := strings.NewReplacer("{session}", "one", "{phase}", "design", "{persona}", "ann", "{name}", "web").Replace(path)
				at = placeholder.ReplaceAllString(at, "1") + required(described)
				var body any
				if need.body != nil {
					body = need.body
				}
				got := h.call(strings.ToUpper(method), at, body)
				switch {
				case role == "elsewhere" && strings.Contains(path, "{session}"):
					require.Equal(t, http.StatusForbidden, got.status, "of another team: %s: %s", name, got.body)
				case role == "elsewhere": // what is of no team, or of any
				case role == "":
					require.Equal(t, http.StatusUnauthorized, got.status, "nobody: %s: %s", name, got.body)
				case h.actor.Roles.Allow(need.permission, "web"):
					require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, got.status, "%s: %s: %s", role, name, got.body)
				default:
					require.Equal(t, http.StatusForbidden, got.status, "%s: %s: %s", role, name, got.body)
				}
			}
		}
	}
	require.Greater(t, called, 12)
}
