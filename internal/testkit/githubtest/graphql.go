package githubtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

var operation = regexp.MustCompile(`^\s*(?:query|mutation)\s+(\w+)`)

// operationOf is the name of a request's query or mutation; empty: it is none of GraphQL.
func operationOf(path string, body []byte) string {
	var in struct{ Query string }
	if path != "/api/graphql" || json.Unmarshal(body, &in) != nil {
		return ""
	}
	if m := operation.FindStringSubmatch(in.Query); m != nil {
		return m[1]
	}
	return ""
}

// graphql answers the operations that the driver sends, by their names.
func (s *Server) graphql(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Query     string
		Variables struct{ ID, Head, Before string }
	}
	if !decode(w, r, &in) {
		return
	}
	m := operation.FindStringSubmatch(in.Query)
	if m == nil {
		failure{http.StatusBadRequest, "A query attribute must be specified and must be a string.", nil}.write(w)
		return
	}
	repo, p, root := s.node(in.Variables.ID)
	if p == nil {
		refuse(w, "NOT_FOUND", fmt.Sprintf("Could not resolve to a node with the global id of '%s'", in.Variables.ID))
		return
	}
	if f, ok := repo.refused[m[1]]; ok {
		refuse(w, "FORBIDDEN", f.message)
		return
	}
	if repo.archived && strings.HasPrefix(strings.TrimSpace(in.Query), "mutation") {
		refuse(w, "UNPROCESSABLE", "Repository was archived so is read-only.")
		return
	}
	var data any = doc{"payload": doc{"clientMutationId": nil}}
	switch m[1] {
	case "MaestroLook":
		data = doc{"node": repo.lookDoc(p, in.Variables.Before)}
	case "MaestroQueue":
		data = doc{"node": doc{"isInMergeQueue": p.Queued, "isMergeQueueEnabled": repo.protect.Queue}}
	case "MaestroReady":
		p.Draft = false
	case "MaestroResolve":
		p.resolved[root] = true
	case "MaestroEnqueue":
		state, why := repo.blocked(p)
		switch {
		case in.Variables.Head != p.head:
			refuse(w, "UNPROCESSABLE", "Head oid did not match the expected value.")
			return
		case state != "clean" && state != "unstable":
			refuse(w, "UNPROCESSABLE", "Pull request "+why)
			return
		}
		p.Queued = true
	default:
		refuse(w, "", "unknown operation "+m[1])
		return
	}
	write(w, 200, doc{"data": data})
}

func refuse(w http.ResponseWriter, kind, message string) {
	e := doc{"message": message, "path": []string{"node"}}
	if kind != "" {
		e["type"] = kind
	} else {
		e["extensions"] = doc{"code": "undefinedField"}
	}
	write(w, 200, doc{"data": nil, "errors": []doc{e}})
}

// node finds a pull request, or a thread of one by its first comment.
func (s *Server) node(id string) (*Repository, *pull, int64) {
	for _, r := range s.repos {
		for _, p := range r.pulls {
			if p.nodeID() == id {
				return r, p, 0
			}
			for _, c := range p.lines {
				if "PRRT_"+strconv.FormatInt(c.id, 10) == id {
					return r, p, c.id
				}
			}
		}
	}
	return nil, nil, 0
}

// threadPage is how many threads are on a page.
const threadPage = 100

func (r *Repository) lookDoc(p *pull, before string) doc {
	threads := []doc{}
	for _, c := range p.lines {
		if c.replyTo == 0 {
			threads = append(threads, doc{
				"id": fmt.Sprintf("PRRT_%d", c.id), "isResolved": p.resolved[c.id],
				"comments": doc{"nodes": []doc{{"fullDatabaseId": strconv.FormatInt(c.id, 10)}}},
			})
		}
	}
	if end, err := strconv.Atoi(before); err == nil {
		threads = threads[:min(end, len(threads))]
	}
	from := max(0, len(threads)-threadPage)
	contexts := []doc{}
	required := map[string]bool{}
	for _, name := range r.protect.Checks {
		required[name] = true
	}
	for _, c := range r.checks {
		if _, conclusion := c.conclude(); c.sha == p.head {
			if text, ok := conclusion.(string); ok {
				conclusion = strings.ToUpper(text)
			}
			contexts = append(contexts, doc{"name": c.name, "conclusion": conclusion, "isRequired": required[c.name]})
			delete(required, c.name)
		}
	}
	for _, c := range r.statuses {
		if c.sha == p.head {
			contexts = append(contexts, doc{"context": c.context, "state": strings.ToUpper(c.state), "isRequired": required[c.context]})
			delete(required, c.context)
		}
	}
	for _, name := range r.protect.Checks {
		if required[name] {
			contexts = append(contexts, doc{"context": name, "state": "EXPECTED", "isRequired": true})
		}
	}
	d := doc{
		"reviewDecision": nil, "isInMergeQueue": p.Queued, "headRef": nil,
		"reviewThreads": doc{
			"pageInfo": doc{"hasPreviousPage": from > 0, "startCursor": strconv.Itoa(from)}, "nodes": threads[from:],
		},
		"commits": doc{"nodes": []doc{{"commit": doc{"statusCheckRollup": doc{"contexts": doc{"nodes": contexts}}}}}},
	}
	if decision := r.decision(p); decision != "" {
		d["reviewDecision"] = decision
	}
	if r.sha(p.Branch) != "" {
		d["headRef"] = doc{"name": p.Branch}
	}
	return d
}
