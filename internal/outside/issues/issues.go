// Package issues reads issues of GitHub and GitLab, on their own sites and on those of companies. What is written there is
// outside text: it is bounded, and becomes a requirement and nothing else.
//
// A token is sent only to the site that it is for: github.com or gitlab.com, or the one that GH_HOST or GITLAB_HOST names.
package issues

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// Address is that of an issue's page.
type Address struct {
	url             *url.URL
	forge           *forge
	project, number string
}

// String is the address without query and fragment.
func (a Address) String() string { return a.site() + a.url.Path }

func (a Address) site() string { return a.url.Scheme + "://" + a.url.Host }

// forge is a kind of site that has issues.
type forge struct {
	name string
	// host is the forge's own site. hostEnv is the variable that names another one to which the token may be sent.
	host, hostEnv string
	// tokenEnv are the variables that may have the token; the first that is set counts.
	tokenEnv []string
	page     *regexp.Regexp
}

const number = `([1-9][0-9]{0,17})/?$`

var (
	gitlab = &forge{
		"GitLab", "gitlab.com", "GITLAB_HOST",
		[]string{"GITLAB_TOKEN"},
		regexp.MustCompile(`^/([^/]+(?:/[^/]+)+)/-/(?:issues|work_items)/` + number),
	}
	github = &forge{
		"GitHub", "github.com", "GH_HOST",
		[]string{"GITHUB_TOKEN", "GH_TOKEN"},
		regexp.MustCompile(`^/([^/]+/[^/]+)/issues/` + number),
	}
)

// Parse reads the address of an issue's page. ok is false for any other text. Requests cross a network only with encryption.
func Parse(text string) (a Address, ok bool) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawPath != "" ||
		strings.Contains(u.Path, "/../") {
		return a, false
	}
	u.Host = strings.ToLower(u.Host)
	if u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
		u.Scheme = "https"
	}
	for _, f := range []*forge{gitlab, github} {
		if m := f.page.FindStringSubmatch(u.Path); m != nil {
			return Address{u, f, m[1], m[2]}, true
		}
	}
	return a, false
}

// api is the address of the issue in the API.
func (a Address) api() string {
	base := a.site() + "/api/v3"
	switch {
	case a.forge == gitlab:
		return a.site() + "/api/v4/projects/" + url.PathEscape(a.project) + "/issues/" + a.number
	case a.url.Host == github.host, strings.HasSuffix(a.url.Host, ".ghe.com"):
		base = "https://api." + a.url.Host
	}
	return base + "/repos/" + a.project + "/issues/" + a.number
}

// comments are the addresses of the newest comments of an issue that has a number of them. GitLab's come newest first.
func (a Address) comments(count int) (pages []string) {
	if a.forge == gitlab {
		return []string{a.api() + "/notes?sort=desc&order_by=created_at&per_page=100"}
	}
	last := (count + 99) / 100
	for page := max(last-1, 1); page <= last; page++ {
		pages = append(pages, fmt.Sprintf("%s/comments?per_page=100&page=%d", a.api(), page))
	}
	return pages
}

// isTrusted reports whether the site may get the token.
func (a Address) isTrusted(getenv func(string) string) bool {
	named := strings.TrimPrefix(strings.TrimRight(getenv(a.forge.hostEnv), "/"), "https://")
	return a.url.Host == a.forge.host || a.url.Host == named
}
