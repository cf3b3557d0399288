package jira

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	gojira "github.com/andygrunwald/go-jira"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// Finding is one thing that was looked at before a ticket is needed.
type Finding struct {
	// What was looked at, like "project".
	What string `json:"what"`
	OK   bool   `json:"ok"`
	// Message says what was found, Remedy what to do about it; empty: nothing.
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

// What is looked at.
const (
	WhatCredentials = "credentials"
	WhatProject     = "project"
	WhatPermissions = "permissions"
	WhatType        = "issue type"
	WhatFields      = "fields"
	WhatComponents  = "components"
	WhatPriorities  = "priorities"
)

// permissionNames are the permissions that tickets take, with the names that
// Jira's administration has for them.
var permissionNames = map[string]string{
	"BROWSE_PROJECTS": "Browse Projects", "CREATE_ISSUES": "Create Issues", "ADD_COMMENTS": "Add Comments",
}

const (
	// metaAtOnce is how many entries of the metadata are asked for at once,
	// maxMetaPages how often.
	metaAtOnce   = 100
	maxMetaPages = 50
)

// Check looks whether tickets could be made as a team file says, without making
// one. What cannot be looked at because of something else is left out. Without a
// project it looks at the credentials only.
func (c *Client) Check(ctx context.Context, how spec.HelpJira) []Finding {
	k := &check{client: c, how: how}
	if how.Type == "" {
		k.how.Type = spec.DefaultTicketType
	}
	if !k.credentials(ctx) || how.Project == "" || !k.project(ctx) || !k.permissions(ctx) {
		return k.findings
	}
	if id := k.issueType(ctx); id != "" {
		k.createScreen(ctx, id)
	}
	return k.findings
}

type check struct {
	client     *Client
	how        spec.HelpJira
	components []string // the project's
	findings   []Finding
}

func (k *check) good(what, format string, args ...any) {
	k.findings = append(k.findings, Finding{What: what, OK: true, Message: fmt.Sprintf(format, args...)})
}

func (k *check) bad(what, remedy, format string, args ...any) {
	k.findings = append(k.findings, Finding{What: what, Message: fmt.Sprintf(format, args...), Remedy: remedy})
}

// ask reads a resource, and records that it cannot be read.
func (k *check) ask(ctx context.Context, what, to string, query url.Values, into any, parts ...string) bool {
	err := k.client.do(ctx, call{
		what: to, method: http.MethodGet, path: k.client.path(parts...), query: query, into: into,
		refused: func(r refusal) *session.TicketTrouble {
			if r.status != http.StatusNotFound {
				return nil
			}
			return misconfigured("Jira at %s has no API to %s %s", k.client.base.Host, to, r.said())
		},
	})
	if err != nil {
		k.bad(what, "", "%s", err)
	}
	return err == nil
}

func (k *check) credentials(ctx context.Context) bool {
	var me gojira.User
	if !k.ask(ctx, WhatCredentials, "read the account", nil, &me, "myself") {
		return false
	}
	name := me.DisplayName
	if name == "" {
		name = me.Name
	}
	k.good(WhatCredentials, "%s: the account of %s is %s", k.client.base.Host, k.client.credentials(), quoted(name))
	return true
}

func (k *check) project(ctx context.Context) bool {
	var found struct {
		Key        string                    `json:"key"`
		Name       string                    `json:"name"`
		Components []gojira.ProjectComponent `json:"components"`
	}
	err := k.client.do(ctx, call{
		what: "read project " + k.how.Project, method: http.MethodGet, path: k.client.path("project", k.how.Project), into: &found,
		refused: func(r refusal) *session.TicketTrouble {
			if r.status != http.StatusNotFound {
				return nil
			}
			return misconfigured("project %s not found for the account of %s %s", k.how.Project, k.client.credentials(), r.said())
		},
	})
	if err != nil {
		k.bad(WhatProject, "check help.jira.project in the team file, or give the account the permission Browse Projects there", "%s", err)
		return false
	}
	for _, component := range found.Components {
		k.components = append(k.components, component.Name)
	}
	if found.Key != "" && found.Key != k.how.Project { // Jira still shows it under a key that it had
		k.bad(WhatProject, "write "+found.Key+" into help.jira.project in the team file",
			"%s is %s, whose key is now %s: tickets are not created under the old key", k.how.Project, quoted(found.Name), found.Key)
		return false
	}
	k.good(WhatProject, "%s is %s", k.how.Project, quoted(found.Name))
	return true
}

func (k *check) permissions(ctx context.Context) bool {
	keys := slices.Sorted(maps.Keys(permissionNames))
	var found struct {
		Permissions map[string]struct {
			Have bool `json:"havePermission"`
		} `json:"permissions"`
	}
	query := url.Values{"projectKey": {k.how.Project}, "permissions": {strings.Join(keys, ",")}}
	if !k.ask(ctx, WhatPermissions, "list the account's permissions", query, &found, "mypermissions") {
		return false
	}
	var missing []string
	for _, key := range keys {
		if !found.Permissions[key].Have {
			missing = append(missing, permissionNames[key])
		}
	}
	if len(missing) > 0 {
		k.bad(WhatPermissions, fmt.Sprintf("give the account these permissions in project %s", k.how.Project),
			"the account of %s lacks %s in project %s", k.client.credentials(), strings.Join(missing, ", "), k.how.Project)
		return false
	}
	k.good(WhatPermissions, "the account may browse %s, create tickets and comment on them", k.how.Project)
	return true
}

// metaType and metaField are entries of the metadata of create screens.
type metaType struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Subtask bool   `json:"subtask"`
}

type metaField struct {
	FieldID string `json:"fieldId"`
	Key     string `json:"key"`
	Name    string `json:"name"`
	// Required and HasDefaultValue say whether a new ticket has to bring a value.
	Required        bool              `json:"required"`
	HasDefaultValue bool              `json:"hasDefaultValue"`
	AllowedValues   []json.RawMessage `json:"allowedValues"`
}

func (f metaField) id() string {
	if f.FieldID != "" {
		return f.FieldID
	}
	return f.Key
}

// allows lists the values that the field takes: all names of each, and what people
// call it. Both are empty for a field that takes others than listed ones.
func (f metaField) allows() (names, called []string) {
	for _, raw := range f.AllowedValues {
		var v struct {
			ID    string `json:"id"`
			Name  string `json:"name"`
			Value string `json:"value"`
		}
		if json.Unmarshal(raw, &v) != nil {
			continue
		}
		known := slices.DeleteFunc([]string{v.Name, v.Value, v.ID}, func(name string) bool { return name == "" })
		if len(known) > 0 {
			names, called = append(names, known...), append(called, known[0])
		}
	}
	return names, called
}

// pages reads a list of the metadata, which Cloud and Data Center name differently.
func pages[T any](ctx context.Context, k *check, what, to string, parts ...string) ([]T, bool) {
	var all []T
	for range maxMetaPages {
		var page struct {
			Types   []T `json:"issueTypes"`
			Fields  []T `json:"fields"`
			Results []T `json:"results"` // the published name of what Cloud calls fields
			Values  []T `json:"values"`
			Total   int `json:"total"`
		}
		query := url.Values{"startAt": {strconv.Itoa(len(all))}, "maxResults": {strconv.Itoa(metaAtOnce)}}
		if !k.ask(ctx, what, to, query, &page, parts...) {
			return nil, false
		}
		got := slices.Concat(page.Types, page.Fields, page.Values)
		if len(got) == 0 {
			got = page.Results
		}
		all = append(all, got...)
		if len(got) == 0 || len(all) >= page.Total {
			break
		}
	}
	return all, true
}

// issueType finds the type of tickets and returns its id; empty: there is none.
func (k *check) issueType(ctx context.Context) string {
	types, ok := pages[metaType](ctx, k, WhatType, "list the issue types of "+k.how.Project, "issue", "createmeta", k.how.Project, "issuetypes")
	if !ok {
		return ""
	}
	var names []string
	for _, t := range types {
		switch {
		case t.Name == k.how.Type && t.Subtask:
			k.bad(WhatType, "set a type of standard tickets in help.jira.type", "%s is a sub-task type, which Maestro does not create", quoted(t.Name))
			return ""
		case t.Name == k.how.Type:
			k.good(WhatType, "%s has the type %s", k.how.Project, quoted(t.Name))
			return t.ID
		case !t.Subtask:
			names = append(names, t.Name)
		}
	}
	k.bad(WhatType, "set one of them in help.jira.type in the team file",
		"%s has no type %s%s; it has %s", k.how.Project, quoted(k.how.Type), textfmt.DidYouMean(k.how.Type, names), strings.Join(names, ", "))
	return ""
}

// createScreen holds what a ticket would bring against what its create screen has.
func (k *check) createScreen(ctx context.Context, typeID string) {
	list, ok := pages[metaField](ctx, k, WhatFields, "list the fields of a new "+k.how.Type, "issue", "createmeta", k.how.Project, "issuetypes", typeID)
	if !ok {
		return
	}
	fields := map[string]metaField{}
	for _, f := range list {
		fields[f.id()] = f
	}
	before := len(k.findings)
	k.required(fields)
	k.onScreen(fields)
	k.values(fields)
	if len(k.findings) == before {
		k.good(WhatFields, "all required fields of a new %s are set", k.how.Type)
	}
	k.named(WhatComponents, "components", k.how.Components, fields, k.components)
	if len(k.how.Priorities) > 0 {
		k.named(WhatPriorities, "priority", slices.Sorted(maps.Values(k.how.Priorities)), fields, k.priorities(ctx, fields))
	}
}

// required finds fields that a new ticket has to bring and would not.
func (k *check) required(fields map[string]metaField) {
	for _, id := range slices.Sorted(maps.Keys(fields)) {
		f := fields[id]
		if !f.Required || f.HasDefaultValue || id == "reporter" || k.brings(id) {
			continue
		}
		values := ""
		if _, called := f.allows(); len(called) > 0 {
			values = "; it takes " + textfmt.Shorten(strings.Join(called, ", "), maxSaid)
		}
		remedy := fmt.Sprintf("set it in help.jira.fields.%s in the team file", id)
		switch id {
		case "components":
			remedy = "set at least one in help.jira.components in the team file"
		case "priority":
			remedy = "set a priority for every category in help.jira.priorities in the team file, or a default for the field in Jira"
		}
		k.bad(WhatFields, remedy, "a new %s requires %s (%s), which is not set%s", k.how.Type, quoted(f.Name), id, values)
	}
}

// brings reports whether every ticket brings a field.
func (k *check) brings(id string) bool {
	switch id {
	case "project", "issuetype", "summary", "description", "labels":
		return true
	case "components":
		return len(k.how.Components) > 0
	case "priority":
		return len(k.how.Priorities) == len(failures.Categories())
	}
	_, ok := k.how.Fields[id]
	return ok
}

// onScreen finds fields that tickets bring and the create screen has not.
func (k *check) onScreen(fields map[string]metaField) {
	sent := append([]string{"summary", "description", "labels"}, slices.Sorted(maps.Keys(k.how.Fields))...)
	if len(k.how.Components) > 0 {
		sent = append(sent, "components")
	}
	if len(k.how.Priorities) > 0 {
		sent = append(sent, "priority")
	}
	for _, id := range sent {
		if _, ok := fields[id]; ok {
			continue
		}
		remedy := "add the field to the project's create screen"
		switch {
		case id == "components" || id == "priority" || k.how.Fields[id] != nil:
			remedy += ", or remove it from help.jira in the team file"
		case id == "labels":
			remedy += ": Maestro finds its tickets by a label"
		}
		k.bad(WhatFields, remedy, "the create screen of a %s in %s has no field %s%s", k.how.Type, k.how.Project, id,
			textfmt.DidYouMean(id, slices.Sorted(maps.Keys(fields))))
	}
}

// values finds values of further fields that Jira does not take.
func (k *check) values(fields map[string]metaField) {
	for _, id := range slices.Sorted(maps.Keys(k.how.Fields)) {
		allowed, called := fields[id].allows()
		if len(allowed) == 0 {
			continue
		}
		for _, name := range chosen(k.how.Fields[id]) {
			if !slices.Contains(allowed, name) {
				k.bad(WhatFields, fmt.Sprintf("set one of them in help.jira.fields.%s in the team file", id),
					"%s (%s) has no value %s%s; it has %s", quoted(fields[id].Name), id, quoted(name), textfmt.DidYouMean(name, called),
					textfmt.Shorten(strings.Join(called, ", "), maxSaid))
			}
		}
	}
}

// chosen lists the names of the options in a field's value.
func chosen(value any) []string {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range []string{"value", "name", "id"} {
			if name, ok := v[key].(string); ok {
				return []string{name}
			}
		}
	case []any:
		var names []string
		for _, entry := range v {
			names = append(names, chosen(entry)...)
		}
		return names
	}
	return nil
}

// named looks whether what is named exists: among the values that the create
// screen takes, or else among those that are known otherwise.
func (k *check) named(what, id string, names []string, fields map[string]metaField, otherwise []string) {
	if len(names) == 0 {
		return
	}
	allowed, called := fields[id].allows()
	if len(allowed) == 0 {
		allowed, called = otherwise, otherwise
	}
	key := map[string]string{WhatComponents: "help.jira.components", WhatPriorities: "help.jira.priorities"}[what]
	sound := true
	for _, name := range slices.Compact(names) {
		if !slices.Contains(allowed, name) {
			sound = false
			k.bad(what, fmt.Sprintf("set an existing one in %s in the team file, or create it in Jira", key),
				"%s has no %s%s; it has %s", k.how.Project, quoted(name), textfmt.DidYouMean(name, called), textfmt.Shorten(strings.Join(called, ", "), maxSaid))
		}
	}
	if sound {
		k.good(what, "%s has %s", k.how.Project, strings.Join(slices.Compact(names), ", "))
	}
}

// priorities lists all of Jira's, where the create screen does not say which it
// takes.
func (k *check) priorities(ctx context.Context, fields map[string]metaField) []string {
	if len(fields["priority"].AllowedValues) > 0 {
		return nil
	}
	var list []gojira.Priority
	if !k.ask(ctx, WhatPriorities, "list the priorities", nil, &list, "priority") {
		return nil
	}
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.Name
	}
	return names
}
