package access

import "net/url"

// PagePath is the path of a session's page in the dashboard, or with a phase that of its review.
func PagePath(id, phase string) string {
	path := "/sessions/" + url.PathEscape(id)
	if phase != "" {
		path += "/phases/" + url.PathEscape(phase)
	}
	return path
}
