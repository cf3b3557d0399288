package jira

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

const (
	// maxSearchPages bounds a search: Cloud may give pages that are empty before
	// the one with the ticket.
	maxSearchPages = 20
	// commentsAtOnce is how many comments are asked for at once, maxComments how
	// many are looked at.
	commentsAtOnce = 100
	maxComments    = 5_000
	// maxFieldErrors bounds what a message repeats of what is wrong with fields.
	maxFieldErrors = 8
)

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
			refused: func(r refusal) *session.TicketTrouble {
				if r.status != http.StatusBadRequest {
					return nil
				}
				return misconfigured("Jira at %s cannot search project %s %s; check help.jira.project in the team file, and that the account of %s may browse the project",
					c.base.Host, project, r.said(), c.credentials())
			},
		})
		if err != nil {
			return session.Ticket{}, false, err
		}
		if len(found.Issues) > 0 {
			return c.ticket(found.Issues[0].Key), true, nil
		}
		if found.NextPageToken == "" {
			break
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
	kind := how.Type
	if kind == "" {
		kind = spec.DefaultTicketType
	}
	fields := map[string]any{}
	maps.Copy(fields, how.Fields)
	fields["project"] = map[string]string{"key": how.Project}
	fields["issuetype"] = map[string]string{"name": kind}
	fields["summary"] = summary(n)
	fields["description"] = fitted(description(n), maxDescription)
	fields["labels"] = append(slices.Clone(how.Labels), label)
	if len(how.Components) > 0 {
		fields["components"] = named(how.Components)
	}
	category := categoryOf(n)
	if priority := how.Priorities[category]; priority != "" {
		fields["priority"] = map[string]string{"name": priority}
	}
	var created struct {
		Key string `json:"key"`
	}
	k := call{
		what: "create a ticket in project " + how.Project, method: http.MethodPost, path: c.path("issue"),
		body: map[string]any{"fields": fields}, into: &created,
		refused: func(r refusal) *session.TicketTrouble { return c.createRefused(how.Project, kind, category, r) },
	}
	if err := c.do(ctx, k); err != nil {
		return session.Ticket{}, err
	}
	if created.Key == "" {
		return session.Ticket{}, c.lost(k, fmt.Errorf("the answer has no ticket key"), true)
	}
	return c.ticket(created.Key), nil
}

func named(names []string) []map[string]string {
	list := make([]map[string]string, len(names))
	for i, name := range names {
		list[i] = map[string]string{"name": name}
	}
	return list
}

// categoryOf is the failure's category, as far as the notice is of one.
func categoryOf(n session.Notice) failures.Category {
	if n.Request == nil {
		return ""
	}
	return n.Request.Category
}

// createRefused says what is to be fixed before a ticket can be made.
func (c *Client) createRefused(project, kind string, category failures.Category, r refusal) *session.TicketTrouble {
	switch r.status {
	case http.StatusForbidden:
		return misconfigured("Jira at %s does not allow the account of %s to create tickets in project %s %s; grant it the permissions Browse Projects and Create Issues, or set another project in help.jira.project",
			c.base.Host, c.credentials(), project, r.said())
	case http.StatusNotFound:
		return misconfigured("Jira at %s: project %s not found for the account of %s %s; check help.jira.project in the team file, and jira.url in the worker file",
			c.base.Host, project, c.credentials(), r.said())
	case http.StatusBadRequest:
	default:
		return nil
	}
	if len(r.fields) == 0 {
		return misconfigured("Jira at %s rejects a ticket of type %s for project %s %s; check help.jira in the team file",
			c.base.Host, kind, project, r.said())
	}
	var wrong []string
	for _, field := range slices.Sorted(maps.Keys(r.fields)) {
		if len(wrong) == maxFieldErrors {
			wrong = append(wrong, fmt.Sprintf("and %d more", len(r.fields)-maxFieldErrors))
			break
		}
		wrong = append(wrong, fmt.Sprintf("%s: %s (%s)", textfmt.Shorten(field, 80), quoted(r.fields[field]), setBy(field, category)))
	}
	if len(r.messages) > 0 {
		wrong = append(wrong, quoted(strings.Join(r.messages, "; ")))
	}
	return misconfigured("Jira at %s rejects a ticket of type %s for project %s (%d): %s",
		c.base.Host, kind, project, r.status, strings.Join(wrong, "; "))
}

// setBy says which key of the team file is to be fixed for a field.
func setBy(field string, category failures.Category) string {
	switch field {
	case "project", "pid":
		return "set by help.jira.project"
	case "issuetype":
		return "set by help.jira.type"
	case "labels":
		return "Maestro finds its tickets by a label: add the field to the project's create screen; help.jira.labels sets more"
	case "components":
		return "set by help.jira.components"
	case "priority":
		return "set by help.jira.priorities." + string(category)
	case "summary", "description":
		return "set by Maestro; add the field to the project's create screen"
	}
	return fmt.Sprintf("set by help.jira.fields.%s", textfmt.Shorten(field, 80))
}

// Comment adds a comment to a ticket. Where an earlier try may have done so, it looks for
// that comment first, and adds no second one.
func (c *Client) Comment(ctx context.Context, in session.TicketComment) error {
	if in.Again {
		there, err := c.commented(ctx, in.Key, in.Notice.ID)
		if err != nil || there {
			return err
		}
	}
	return c.do(ctx, call{
		what: "comment on " + in.Key, method: http.MethodPost, path: c.path("issue", in.Key, "comment"),
		body: map[string]any{"body": fitted(comment(in), maxComment)},
		refused: func(r refusal) *session.TicketTrouble {
			return c.ticketRefused(in.Key, "Add Comments", r)
		},
	})
}

// ticketRefused says why something cannot be done with a ticket. permission is
// what it takes.
func (c *Client) ticketRefused(key, permission string, r refusal) *session.TicketTrouble {
	switch r.status {
	case http.StatusNotFound:
		return &session.TicketTrouble{
			Kind: session.Gone,
			Message: fmt.Sprintf("Jira at %s: ticket %s not found for the account of %s %s; it was deleted, or the account lacks the permission Browse Projects",
				c.base.Host, key, c.credentials(), r.said()),
		}
	case http.StatusForbidden:
		return misconfigured("Jira at %s does not allow the account of %s to do that with %s %s; grant it the permission %s in project %s",
			c.base.Host, c.credentials(), key, r.said(), permission, projectOf(key))
	}
	return nil
}

// projectOf is the project's part of a ticket's key.
func projectOf(key string) string {
	project, _, _ := strings.Cut(key, "-")
	return project
}

// commented reports whether a ticket has the comment of a notice.
func (c *Client) commented(ctx context.Context, key, id string) (bool, error) {
	for start := 0; start < maxComments; {
		var page struct {
			Comments []struct {
				Body string `json:"body"`
			} `json:"comments"`
			Total int `json:"total"`
		}
		err := c.do(ctx, call{
			what: "list the comments of " + key, method: http.MethodGet, path: c.path("issue", key, "comment"),
			query: url.Values{"startAt": {strconv.Itoa(start)}, "maxResults": {strconv.Itoa(commentsAtOnce)}, "orderBy": {"-created"}},
			into:  &page,
			refused: func(r refusal) *session.TicketTrouble {
				return c.ticketRefused(key, "Browse Projects", r)
			},
		})
		if err != nil {
			return false, err
		}
		for _, comment := range page.Comments {
			if isComment(comment.Body, id) {
				return true, nil
			}
		}
		start += len(page.Comments)
		if len(page.Comments) == 0 || start >= page.Total {
			break
		}
	}
	return false, nil
}
