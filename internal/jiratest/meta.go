package jiratest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) myself(w http.ResponseWriter) {
	me := map[string]any{"self": s.self("myself"), "displayName": "Maestro", "active": true, "emailAddress": Email, "timeZone": "UTC"}
	if s.options.DataCenter {
		me["name"], me["key"] = "maestro", "JIRAUSER10100"
	} else {
		me["accountId"], me["accountType"] = "5b10a2844c20165700ede21g", "atlassian"
	}
	reply(w, http.StatusOK, me)
}

func (s *Server) permissions(w http.ResponseWriter, r Request) {
	project := r.Query.Get("projectKey")
	if s.byKey(project) == nil {
		refuse(w, http.StatusNotFound, nil, "No project could be found with key '"+project+"'.")
		return
	}
	asked := []string{"BROWSE_PROJECTS", "CREATE_ISSUES", "ADD_COMMENTS", "DELETE_ISSUES"}
	if !s.options.DataCenter {
		if r.Query.Get("permissions") == "" {
			refuse(w, http.StatusBadRequest, nil, "The 'permissions' query parameter is required.")
			return
		}
		asked = strings.Split(r.Query.Get("permissions"), ",")
	}
	out := map[string]any{}
	for i, key := range asked {
		out[key] = map[string]any{"id": strconv.Itoa(i), "key": key, "type": "PROJECT", "havePermission": !s.denied(project, key)}
	}
	reply(w, http.StatusOK, map[string]any{"permissions": out})
}

// project answers for a project that the account can see.
func (s *Server) project(w http.ResponseWriter, key string) {
	for _, moved := range s.options.Projects {
		if moved.Was != "" && moved.Was == key {
			key = moved.Key
		}
	}
	p := s.visible(w, key)
	if p == nil {
		return
	}
	components := []map[string]any{}
	for i, c := range p.Components {
		components = append(components, map[string]any{"id": strconv.Itoa(20_000 + i), "name": c})
	}
	reply(w, http.StatusOK, map[string]any{
		"id": "10000", "key": p.Key, "name": p.Key, "self": s.self("project/" + p.Key),
		"components": components, "issueTypes": p.typeList(),
	})
}

func (s *Server) visible(w http.ResponseWriter, key string) *Project {
	if p := s.byKey(key); p != nil && !s.denied(key, "BROWSE_PROJECTS") {
		return p
	}
	refuse(w, http.StatusNotFound, nil, "No project could be found with key '"+key+"'.")
	return nil
}

func (p Project) typeList() []map[string]any {
	list := []map[string]any{}
	for i, t := range p.Types {
		list = append(list, map[string]any{"id": strconv.Itoa(1 + i), "name": t.Name, "subtask": false})
	}
	return list
}

// types and fields are the two resources of the metadata of create screens.
func (s *Server) types(w http.ResponseWriter, r Request, key string) {
	p := s.visible(w, key)
	if p == nil {
		return
	}
	list := []map[string]any{}
	if !s.denied(key, "CREATE_ISSUES") {
		list = p.typeList()
	}
	s.paged(w, r, "issueTypes", list)
}

func (s *Server) fields(w http.ResponseWriter, r Request, key, id string) {
	p := s.visible(w, key)
	if p == nil {
		return
	}
	n, err := strconv.Atoi(id)
	if err != nil || n < 1 || n > len(p.Types) {
		refuse(w, http.StatusNotFound, nil, "Issue type with id '"+id+"' does not exist.")
		return
	}
	t := p.Types[n-1]
	list := []map[string]any{
		{"fieldId": "summary", "key": "summary", "name": "Summary", "required": true, "hasDefaultValue": false},
		{"fieldId": "issuetype", "key": "issuetype", "name": "Issue Type", "required": true, "hasDefaultValue": false},
		{"fieldId": "project", "key": "project", "name": "Project", "required": true, "hasDefaultValue": false},
		{"fieldId": "reporter", "key": "reporter", "name": "Reporter", "required": true, "hasDefaultValue": true},
		{"fieldId": "description", "key": "description", "name": "Description", "required": false, "hasDefaultValue": false},
		{"fieldId": "labels", "key": "labels", "name": "Labels", "required": false, "hasDefaultValue": false},
		{"fieldId": "components", "key": "components", "name": "Components", "required": false, "hasDefaultValue": false, "allowedValues": nameList(p.Components)},
		{"fieldId": "priority", "key": "priority", "name": "Priority", "required": false, "hasDefaultValue": true, "allowedValues": nameList(p.Priorities)},
	}
	list = slices.DeleteFunc(list, func(f map[string]any) bool { return slices.Contains(t.Without, f["fieldId"].(string)) })
	for _, f := range t.Fields {
		field := map[string]any{"fieldId": f.ID, "key": f.ID, "name": f.Name, "required": f.Required, "hasDefaultValue": f.Default}
		if f.Options != nil {
			values := []map[string]any{}
			for i, o := range f.Options {
				values = append(values, map[string]any{"id": strconv.Itoa(30_000 + i), "value": o})
			}
			field["allowedValues"] = values
		}
		list = append(list, field)
	}
	s.paged(w, r, "fields", list)
}

func nameList(names []string) []map[string]any {
	list := []map[string]any{}
	for i, name := range names {
		list = append(list, map[string]any{"id": strconv.Itoa(1 + i), "name": name})
	}
	return list
}

// paged answers with a page of a list, under the name that Cloud has for it.
func (s *Server) paged(w http.ResponseWriter, r Request, name string, list []map[string]any) {
	start, most := page(r, 50)
	end := min(start+most, len(list))
	out := map[string]any{"startAt": start, "maxResults": most, "total": len(list)}
	part := list[min(start, end):end]
	if s.options.DataCenter {
		out["values"], out["isLast"] = part, end == len(list)
	} else {
		out[name] = part
	}
	reply(w, http.StatusOK, out)
}

// priorities answers with all priorities of all projects.
func (s *Server) priorities(w http.ResponseWriter) {
	var names []string
	for _, p := range s.options.Projects {
		names = append(names, p.Priorities...)
	}
	slices.Sort(names)
	reply(w, http.StatusOK, nameList(slices.Compact(names)))
}
