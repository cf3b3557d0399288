package jiratest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf16"
)

// maxText is how long a text may be, in UTF-16 code units.
const maxText = 32_767

const tooLong = "The entered text is too long. It exceeds the allowed limit of 32,767 characters."

// own lists the fields that every create screen has unless its type is without.
var own = []string{"project", "issuetype", "summary", "description", "labels", "components", "priority"}

func (s *Server) create(w http.ResponseWriter, r Request) {
	var sent struct {
		Fields map[string]json.RawMessage `json:"fields"`
	}
	if err := json.Unmarshal(r.Body, &sent); err != nil {
		refuse(w, http.StatusBadRequest, nil, "Invalid request payload. Refer to the REST API documentation and try again.")
		return
	}
	var project struct {
		Key string `json:"key"`
	}
	_ = json.Unmarshal(sent.Fields["project"], &project)
	p := s.byKey(project.Key)
	if p == nil || s.denied(p.Key, "BROWSE_PROJECTS") {
		refuse(w, http.StatusBadRequest, map[string]string{"project": "valid project is required"})
		return
	}
	if s.denied(p.Key, "CREATE_ISSUES") {
		refuse(w, http.StatusForbidden, nil, "You do not have permission to create issues in this project.")
		return
	}
	name := nameOf(sent.Fields["issuetype"])
	at := slices.IndexFunc(p.Types, func(t Type) bool { return t.Name == name })
	if at < 0 {
		refuse(w, http.StatusBadRequest, map[string]string{"issuetype": "Specify a valid issue type"})
		return
	}
	if wrong := s.wrongFields(*p, p.Types[at], sent.Fields); len(wrong) > 0 {
		refuse(w, http.StatusBadRequest, wrong)
		return
	}
	issue := s.add(p.Key, sent.Fields)
	reply(w, http.StatusCreated, map[string]string{"id": issue.ID, "key": issue.Key, "self": s.self("issue/" + issue.ID)})
}

// wrongFields says what Jira would about the fields of a new issue.
func (s *Server) wrongFields(p Project, t Type, fields map[string]json.RawMessage) map[string]string {
	wrong := map[string]string{}
	for id, value := range fields {
		at := slices.IndexFunc(t.Fields, func(f Field) bool { return f.ID == id })
		switch {
		case slices.Contains(t.Without, id) || at < 0 && !slices.Contains(own, id):
			wrong[id] = fmt.Sprintf("Field '%s' cannot be set. It is not on the appropriate screen, or unknown.", id)
		case at >= 0:
			if why := wrongValue(t.Fields[at], value); why != "" {
				wrong[id] = why
			}
		default:
			if why := s.wrongOwn(p, id, value); why != "" {
				wrong[id] = why
			}
		}
	}
	for _, f := range t.Fields {
		if _, ok := fields[f.ID]; f.Required && !ok {
			wrong[f.ID] = f.Name + " is required."
		}
	}
	if _, ok := fields["summary"]; !ok {
		wrong["summary"] = "You must specify a summary of the issue."
	}
	return wrong
}

func wrongValue(f Field, value json.RawMessage) string {
	if f.Options == nil {
		var text string
		if json.Unmarshal(value, &text) != nil {
			return "Operation value must be a string"
		}
		return ""
	}
	var option struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(value, &option) != nil {
		return "Specify a valid 'id' or 'name' for " + f.Name
	}
	if !slices.Contains(f.Options, option.Value) {
		return "Option value '" + option.Value + "' is not valid"
	}
	return ""
}

func (s *Server) wrongOwn(p Project, id string, value json.RawMessage) string {
	switch id {
	case "summary":
		return wrongSummary(value)
	case "description":
		return s.checkText(value)
	case "labels":
		var labels []string
		if json.Unmarshal(value, &labels) != nil {
			return "Operation value must be an array"
		}
		for _, l := range labels {
			if strings.ContainsAny(l, " \t\n") {
				return fmt.Sprintf("The label '%s' contains spaces which is invalid.", l)
			}
		}
	case "components":
		var components []json.RawMessage
		if json.Unmarshal(value, &components) != nil {
			return "Operation value must be an array"
		}
		for _, c := range components {
			if name := nameOf(c); !slices.Contains(p.Components, name) {
				return "Component name '" + name + "' is not valid"
			}
		}
	case "priority":
		if name := nameOf(value); !slices.Contains(p.Priorities, name) {
			return "Priority name '" + name + "' is not valid"
		}
	}
	return ""
}

func wrongSummary(value json.RawMessage) string {
	var text string
	switch err := json.Unmarshal(value, &text); {
	case err != nil:
		return "Operation value must be a string"
	case strings.TrimSpace(text) == "":
		return "You must specify a summary of the issue."
	case strings.ContainsAny(text, "\r\n"):
		return "The summary is invalid because it contains newline characters."
	case length(text) > 255:
		return "Summary can't exceed 255 characters."
	}
	return ""
}

func length(text string) int { return len(utf16.Encode([]rune(text))) }

func nameOf(value json.RawMessage) string {
	var named struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(value, &named)
	return named.Name
}

// checkText says what is wrong with a text; empty: nothing.
func (s *Server) checkText(value json.RawMessage) string {
	var text string
	isText := json.Unmarshal(value, &text) == nil
	switch {
	case !isText:
		return "Operation value must be a string"
	case strings.TrimSpace(text) == "":
		return "Comment body can not be empty!"
	case length(text) > maxText:
		return tooLong
	}
	return ""
}

// byKey finds a project. The server is locked.
func (s *Server) byKey(key string) *Project {
	for i := range s.options.Projects {
		if s.options.Projects[i].Key == key {
			return &s.options.Projects[i]
		}
	}
	return nil
}

func (s *Server) denied(project, permission string) bool {
	p := s.byKey(project)
	return p == nil || slices.Contains(p.Denied, permission)
}
