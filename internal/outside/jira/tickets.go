package jira

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// maxSearchPages bounds a search: Cloud may give pages that are empty before
// the one with the ticket.
const maxSearchPages = 20

// The permissions that tickets take, with the names that Jira's administration has for them.
var permissions = []struct{ key, name string }{
	{"ADD_COMMENTS", "Add Comments"}, {"BROWSE_PROJECTS", "Browse Projects"}, {"CREATE_ISSUES", "Create Issues"},
}

// adviceOnProject is what to check if a project cannot be used.
const adviceOnProject = "check help.jira.project in the team file, and grant the account the permissions Browse Projects and " +
	"Create Issues; "

// Check asks in one call whether the account may create tickets in a project and comment on them, and creates none.
// Without a project it checks the credentials only. What else a project requires is in Jira's answer when a ticket is
// created. Its error is a *session.TicketTrouble.
func (c *Client) Check(ctx context.Context, project string) error {
	if project == "" {
		return c.do(ctx, call{what: "read the account", method: http.MethodGet, path: c.path("myself")})
	}
	var keys, missing []string
	for _, p := range permissions {
		keys = append(keys, p.key)
	}
	var found struct {
		Permissions map[string]struct {
			Have bool `json:"havePermission"`
		} `json:"permissions"`
	}
	err := c.do(ctx, call{
		what: "list its permissions in project " + project, method: http.MethodGet, path: c.path("mypermissions"),
		query: url.Values{"projectKey": {project}, "permissions": {strings.Join(keys, ",")}}, into: &found, advice: adviceOnProject,
	})
	for _, p := range permissions {
		if !found.Permissions[p.key].Have {
			missing = append(missing, p.name)
		}
	}
	if err == nil && len(missing) > 0 {
		return c.misconfigured("the account of %s lacks %s in project %s; grant it these permissions",
			c.credentials(), strings.Join(missing, ", "), project)
	}
	return err
}

// Find looks for the ticket of a project that carries a label, the oldest if
// there are several. One that was created just now may not be found yet: Jira's
// search lags.
func (c *Client) Find(ctx context.Context, project, label string) (session.Ticket, bool, error) {
	jql := fmt.Sprintf("project = %s AND labels = %s ORDER BY created ASC", jqlString(project), jqlString(label))
	query := url.Values{"jql": {jql}, "fields": {"created"}, "maxResults": {"1"}}
	path := c.path("search", "jql")
	if c.config.Deployment == DataCenter {
		path = c.path("search")
	}
	for range maxSearchPages {
		var found struct {
			Issues []struct {
				Key string `json:"key"`
			} `json:"issues"`
			NextPageToken string `json:"nextPageToken"`
		}
		err := c.do(ctx, call{
			what: "look for the ticket in project " + project, method: http.MethodGet, path: path, query: query, into: &found,
			advice: adviceOnProject,
		})
		switch {
		case err != nil:
			return session.Ticket{}, false, err
		case len(found.Issues) > 0:
			return c.ticket(found.Issues[0].Key), true, nil
		case found.NextPageToken == "":
			return session.Ticket{}, false, nil
		}
		query.Set("nextPageToken", found.NextPageToken)
	}
	return session.Ticket{}, false, nil
}

func (c *Client) ticket(key string) session.Ticket {
	return session.Ticket{Key: key, URL: c.Address(key)}
}

// jqlString is a text as a string of Jira's query language.
func jqlString(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(text) + `"`
}

// Create makes a ticket of a notice, and gives it the label. Only a trouble of
// kind Unclear leaves open whether there is one.
func (c *Client) Create(ctx context.Context, how spec.HelpJira, label string, n session.Notice) (session.Ticket, error) {
	type named struct {
		Name string `json:"name"`
	}
	kind := cmp.Or(how.Type, spec.DefaultTicketType)
	fields := map[string]any{}
	maps.Copy(fields, how.Fields)
	fields["project"] = map[string]string{"key": how.Project}
	fields["issuetype"] = named{kind}
	fields["summary"] = summary(n)
	fields["description"] = textfmt.Shorten(description(n), maxText)
	fields["labels"] = append(slices.Clone(how.Labels), label)
	var components []named
	for _, name := range how.Components {
		components = append(components, named{name})
	}
	if components != nil {
		fields["components"] = components
	}
	if n.Request != nil && how.Priorities[n.Request.Category] != "" {
		fields["priority"] = named{how.Priorities[n.Request.Category]}
	}
	var created struct {
		Key string `json:"key"`
	}
	k := call{
		what: fmt.Sprintf("create a ticket of type %s in project %s", kind, how.Project), method: http.MethodPost,
		path: c.path("issue"),
		body: map[string]any{"fields": fields}, into: &created,
		advice: "correct these fields under help.jira in the team file, or add them to the project's create screen; " +
			"it needs the field labels, by which Maestro finds its tickets, " +
			"and the account the permissions Browse Projects and Create Issues; ",
	}
	if err := c.do(ctx, k); err != nil {
		return session.Ticket{}, err
	}
	if created.Key == "" {
		return session.Ticket{}, c.lost(k, "the answer has no ticket key", true)
	}
	return c.ticket(created.Key), nil
}

// adviceOnTicket is what to check if a ticket cannot be used.
const adviceOnTicket = "the ticket was deleted, or the account lacks the permission Browse Projects or Add Comments; "

// Comment adds a comment to a ticket. Where an earlier try may have done so, it looks for
// that comment among the newest, and adds no second one.
func (c *Client) Comment(ctx context.Context, in session.TicketComment) error {
	if in.Again {
		newest, _, err := c.newest(ctx, in.Key)
		if err != nil {
			return err
		}
		for _, there := range newest {
			if isComment(there.Body, in.Notice.ID) {
				return nil
			}
		}
	}
	return c.do(ctx, call{
		what: "comment on " + in.Key, method: http.MethodPost, path: c.path("issue", in.Key, "comment"),
		body: map[string]any{"body": comment(in)}, advice: adviceOnTicket, ofTicket: true,
	})
}

// said is a comment as Jira has it.
type said struct {
	Body    string `json:"body"`
	Created string `json:"created"`
	Author  struct {
		DisplayName string `json:"displayName"`
	} `json:"author"`
}

// newest lists the newest comments of a ticket, the newest first. total counts all.
func (c *Client) newest(ctx context.Context, key string) (comments []said, total int, err error) {
	var list struct {
		Comments []said `json:"comments"`
		Total    int    `json:"total"`
	}
	err = c.do(ctx, call{
		what: "list the comments of " + key, method: http.MethodGet, path: c.path("issue", key, "comment"), into: &list,
		advice: adviceOnTicket, ofTicket: true,
		query: url.Values{"maxResults": {"1000"}, "orderBy": {"-created"}},
	})
	return list.Comments, list.Total, err
}
