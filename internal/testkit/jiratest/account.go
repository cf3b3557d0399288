package jiratest

import (
	"net/http"
	"strconv"
	"strings"
)

func (s *Server) myself(w http.ResponseWriter) {
	me := map[string]any{
		"self": s.self("myself"), "displayName": "Maestro", "active": true, "emailAddress": Email,
		"timeZone": "UTC",
	}
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
