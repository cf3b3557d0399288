package jiratest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// asked is the one query that the search knows, with its strings.
var asked = regexp.MustCompile(`^project = ("(?:[^"\\]|\\.)*") AND labels = ("(?:[^"\\]|\\.)*") ORDER BY created ASC$`)

var unquote = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\r`, "\r", `\t`, "\t")

func (s *Server) search(w http.ResponseWriter, r Request) {
	m := asked.FindStringSubmatch(r.Query.Get("jql"))
	if m == nil {
		refuse(w, http.StatusBadRequest, nil, "Error in the JQL Query: '"+r.Query.Get("jql")+"' is not understood.")
		return
	}
	project, label := unquote.Replace(m[1][1:len(m[1])-1]), unquote.Replace(m[2][1:len(m[2])-1])
	if s.byKey(project) == nil || s.denied(project, "BROWSE_PROJECTS") {
		refuse(w, http.StatusBadRequest, nil, "The value '"+project+"' does not exist for the field 'project'.")
		return
	}
	found := []map[string]any{}
	for _, i := range s.issues {
		if i.Project != project || !slices.Contains(i.Labels(), label) || time.Since(i.created) < s.options.IndexDelay {
			continue
		}
		hit := map[string]any{"id": i.ID}
		if s.options.DataCenter || r.Query.Get("fields") != "" { // Cloud gives ids alone unless asked for more
			hit["key"], hit["self"] = i.Key, s.self("issue/"+i.ID)
			hit["fields"] = map[string]any{"created": i.created.Format("2006-01-02T15:04:05.000-0700")}
		}
		found = append(found, hit)
	}
	start, most := page(r, 50)
	end := min(start+most, len(found))
	if s.options.DataCenter {
		reply(w, http.StatusOK, map[string]any{
			"startAt": start, "maxResults": most, "total": len(found),
			"issues": found[min(start, end):end],
		})
		return
	}
	out := map[string]any{"issues": found[:min(most, len(found))], "isLast": len(found) <= most}
	if len(found) > most {
		out["nextPageToken"] = "CAEaAggD"
	}
	reply(w, http.StatusOK, out)
}
