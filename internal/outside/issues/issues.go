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
	url     *url.URL
	forge   *forge
	project string
	number  string
}

// String is the address without query and fragment.
func (a Address) String() string { return a.url.Scheme + "://" + a.url.Host + a.url.Path }

// forge is a kind of site that has issues.
type forge struct {
	name string
	// host is the forge's own site. hostEnv is the variable that names another one to which the token may be sent.
	host, hostEnv string
	// tokenEnv are the variables that may have the token; the first that is set counts.
	tokenEnv []string
	page     *regexp.Regexp
	// api is the address of the API of a site, issue that of an issue below it, and comments those of the newest comments of an
	// issue that has a number of them.
	api      func(site *url.URL) string
	issue    func(a Address) string
	comments func(a Address, count int) []string
	// newestFirst is the order of comments in an answer.
	newestFirst bool
}

const (
	number  = `([1-9][0-9]{0,17})/?$`
	perPage = 100
)

var forges = []*forge{
	{
		name: "GitLab", host: "gitlab.com", hostEnv: "GITLAB_HOST", tokenEnv: []string{"GITLAB_TOKEN"},
		page:  regexp.MustCompile(`^/([^/]+(?:/[^/]+)+)/-/(?:issues|work_items)/` + number),
		api:   func(site *url.URL) string { return site.Scheme + "://" + site.Host + "/api/v4" },
		issue: func(a Address) string { return "/projects/" + url.PathEscape(a.project) + "/issues/" + a.number },
		comments: func(a Address, _ int) []string {
			return []string{fmt.Sprintf("%s/notes?sort=desc&order_by=created_at&per_page=%d", a.forge.issue(a), perPage)}
		},
		newestFirst: true,
	},
	{
		name: "GitHub", host: "github.com", hostEnv: "GH_HOST", tokenEnv: []string{"GITHUB_TOKEN", "GH_TOKEN"},
		page: regexp.MustCompile(`^/([^/]+/[^/]+)/issues/` + number),
		api: func(site *url.URL) string {
			if site.Host == "github.com" || strings.HasSuffix(site.Host, ".ghe.com") {
				return "https://api." + site.Host
			}
			return site.Scheme + "://" + site.Host + "/api/v3"
		},
		issue: func(a Address) string { return "/repos/" + a.project + "/issues/" + a.number },
		comments: func(a Address, count int) (pages []string) {
			last := (count + perPage - 1) / perPage
			for page := max(last-1, 1); page <= last; page++ {
				pages = append(pages, fmt.Sprintf("%s/comments?per_page=%d&page=%d", a.forge.issue(a), perPage, page))
			}
			return pages
		},
	},
}

// Parse reads the address of an issue's page. ok is false for any other text.
func Parse(text string) (a Address, ok bool) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawPath != "" || strings.Contains(u.Path, "/../") {
		return a, false
	}
	u.Host = strings.ToLower(u.Host)
	for _, f := range forges {
		if m := f.page.FindStringSubmatch(u.Path); m != nil {
			return Address{url: u, forge: f, project: m[1], number: m[2]}, true
		}
	}
	return a, false
}

// isPlain reports whether requests would cross a network without encryption.
func (a Address) isPlain() bool {
	ip := net.ParseIP(a.url.Hostname())
	return a.url.Scheme != "https" && a.url.Hostname() != "localhost" && !ip.IsLoopback()
}

// isTrusted reports whether the site may get the token.
func (a Address) isTrusted(getenv func(string) string) bool {
	named := strings.TrimPrefix(strings.TrimRight(getenv(a.forge.hostEnv), "/"), "https://")
	return a.url.Host == a.forge.host || a.url.Host == named
}
