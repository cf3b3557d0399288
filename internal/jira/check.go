package jira

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/session"
)

// permissionNames are the permissions that tickets take, with the names that Jira's administration has for them.
var permissionNames = map[string]string{
	"BROWSE_PROJECTS": "Browse Projects", "CREATE_ISSUES": "Create Issues", "ADD_COMMENTS": "Add Comments",
}

// Check asks in one call whether the account may create tickets in a project and comment on them, and creates none. Without a project it
// checks the credentials only. What else a project requires is in Jira's answer when a ticket is created. Its error is a *session.TicketTrouble.
func (c *Client) Check(ctx context.Context, project string) error {
	if project == "" {
		return c.do(ctx, call{what: "read the account", method: http.MethodGet, path: c.path("myself")})
	}
	keys := slices.Sorted(maps.Keys(permissionNames))
	var found struct {
		Permissions map[string]struct {
			Have bool `json:"havePermission"`
		} `json:"permissions"`
	}
	err := c.do(ctx, call{
		what: "list the account's permissions in project " + project, method: http.MethodGet, path: c.path("mypermissions"),
		query: url.Values{"projectKey": {project}, "permissions": {strings.Join(keys, ",")}}, into: &found,
		refused: func(r refusal) *session.TicketTrouble {
			if r.status != http.StatusNotFound {
				return nil
			}
			return misconfigured("Jira at %s: project %s not found for the account of %s %s; check help.jira.project in the team file, or grant the permission Browse Projects",
				c.base.Host, project, c.credentials(), r.said())
		},
	})
	if err != nil {
		return err
	}
	var missing []string
	for _, key := range keys {
		if !found.Permissions[key].Have {
			missing = append(missing, permissionNames[key])
		}
	}
	if len(missing) > 0 {
		return misconfigured("the account of %s lacks %s in project %s; grant it these permissions", c.credentials(), strings.Join(missing, ", "), project)
	}
	return nil
}
