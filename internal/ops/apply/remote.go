package apply

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/safetext"
)

// The references of the clone: the base and the branch, as they were fetched.
const (
	baseRef   = "refs/maestro/base"
	branchRef = "refs/maestro/branch"
)

var commitName = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// check refuses a target that is wrong whatever the remote says.
func (t PushTarget) check() error {
	u, err := url.Parse(t.URL)
	if err != nil || u.User != nil || u.Hostname() == "" || u.RawQuery+u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback()) {
		return failures.Failf(failures.InvalidRequest, "the repository's address has to be like https://example.org/acme/shop.git")
	}
	if t.Password == "" {
		return failures.Failf(failures.Auth, "there are no credentials for %s", t.URL)
	}
	for _, name := range slices.Concat(t.Resolved, []string{t.StartedOn, t.Previous}) {
		if name != "" && !commitName.MatchString(name) {
			return failures.Failf(failures.InvalidRequest, "%s is not the name of a commit", safetext.Name(name))
		}
	}
	for _, name := range []string{t.Branch, t.Base} { // git checks the rest
		if name == "" || name[0] == '-' {
			return failures.Failf(failures.InvalidRequest, "%q is not the name of a branch", name)
		}
	}
	return nil
}

// git is git in the clone. It has the credentials in its environment only, and no settings but these.
func (t PushTarget) git() git {
	g := gitIn(t.Dir, slices.DeleteFunc(slices.Clone(t.Environ), func(entry string) bool {
		return strings.HasPrefix(entry, "GIT_") && !strings.HasPrefix(entry, "GIT_SSL_CA") || strings.HasPrefix(entry, "SSH_ASKPASS=")
	}))
	settings := [][2]string{
		{"http." + t.URL + ".extraHeader", "Authorization: Basic " + t.credentials()},
		{"remote.origin.url", t.URL},
		{"http.followRedirects", "false"},
		{"http.lowSpeedLimit", "1000"},
		{"http.lowSpeedTime", "60"},
		{"protocol.allow", "never"},
		{"protocol.https.allow", "always"},
		{"credential.helper", ""},
		{"core.hooksPath", os.DevNull},
		{"core.attributesFile", os.DevNull},
		{"core.bigFileThreshold", "16m"},
		{"gc.autoDetach", "false"},
		// Old repositories have the mistakes that are ignored.
		{"transfer.fsckObjects", "true"},
		{"fetch.fsck.zeroPaddedFilemode", "ignore"},
		{"fetch.fsck.badTimezone", "ignore"},
		{"fetch.fsck.missingSpaceBeforeDate", "ignore"},
		{"fetch.fsck.missingSpaceBeforeEmail", "ignore"},
	}
	if strings.HasPrefix(t.URL, "http:") {
		settings = append(settings, [2]string{"protocol.http.allow", "always"})
	}
	for i, s := range settings {
		g = g.with(fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	at := fmt.Sprintf("@%d +0000", t.At.Unix())
	return g.with(fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "GIT_LITERAL_PATHSPECS=1", "GIT_DIR="+t.Dir, "HOME="+t.Dir,
		"GIT_AUTHOR_NAME="+t.Name, "GIT_AUTHOR_EMAIL="+t.Mail, "GIT_AUTHOR_DATE="+at,
		"GIT_COMMITTER_NAME="+t.Name, "GIT_COMMITTER_EMAIL="+t.Mail, "GIT_COMMITTER_DATE="+at)
}

func (t PushTarget) credentials() string {
	return base64.StdEncoding.EncodeToString([]byte(t.User + ":" + t.Password))
}

// fetch brings the clone up to date.
func (p *pushing) fetch(ctx context.Context) error {
	if _, err := p.git.run(ctx, nil, "init", "--quiet", "--bare", "--template="); err != nil {
		return err
	}
	base := "refs/heads/" + p.target.Base
	list, err := p.git.run(ctx, nil, "ls-remote", "origin", base, p.ref)
	if err != nil {
		return err
	}
	there := strings.Fields(list)
	if !slices.Contains(there, base) {
		return refusef("there is no branch %s to build on", safetext.Name(p.target.Base))
	}
	refs, exists := []string{"+" + base + ":" + baseRef}, slices.Contains(there, p.ref)
	if exists {
		refs = append(refs, "+"+p.ref+":"+branchRef)
	}
	if err := p.fetchRefs(ctx, refs...); err != nil {
		return err
	}
	if p.base, err = p.git.run(ctx, nil, "rev-parse", "--verify", baseRef+"^{commit}"); err == nil && exists {
		p.head, err = p.git.run(ctx, nil, "rev-parse", "--verify", branchRef+"^{commit}")
	}
	return err
}

// fetchRefs fetches commits and trees. Files are fetched when they are needed, if the remote permits that.
func (p *pushing) fetchRefs(ctx context.Context, refs ...string) error {
	args := []string{
		"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--filter=blob:none",
		"origin",
	}
	_, err := p.git.run(ctx, nil, append(args, refs...)...)
	return err
}

// knows reports whether the clone has a commit. It fetches nothing.
func (p *pushing) knows(ctx context.Context, commit string) bool {
	_, err := p.git.run(ctx, nil, "rev-list", "--missing=allow-any", "--max-count=1", commit)
	return err == nil
}

// find reports whether the remote has a commit, which is in the clone then.
func (p *pushing) find(ctx context.Context, commit string) (bool, error) {
	if p.knows(ctx, commit) {
		return true, nil
	}
	err := p.fetchRefs(ctx, commit)
	if refused, ok := errors.AsType[*gitError](err); ok && unknownCommit.MatchString(refused.said) {
		return false, nil
	}
	return err == nil && p.knows(ctx, commit), err
}

// contains reports whether a commit is another, or follows it.
func (p *pushing) contains(ctx context.Context, commit, other string) (bool, error) {
	if !p.knows(ctx, other) {
		return false, nil
	}
	_, err := p.git.run(ctx, nil, "merge-base", "--is-ancestor", other, commit)
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// What git says for servers.
var (
	unknownCommit = regexp.MustCompile(`not our ref|unadvertised object|find remote ref|no such remote ref`)
	moved         = regexp.MustCompile(`\[rejected\]|is at [0-9a-f]+ but expected|failed to update ref|reference already exists`)
	rejected      = regexp.MustCompile(`\[remote rejected\] \((.*)\)`)
	remoteLine    = regexp.MustCompile(`(?m)^remote: (.*)`)
)

type verdict struct {
	said     *regexp.Regexp
	category failures.Category
}

// verdicts say who has to act on what git says. The first that matches counts.
var verdicts = []verdict{
	{regexp.MustCompile(`returned error: 40[13]\b|Authentication failed|could not read (Username|Password)`), failures.Auth},
	{regexp.MustCompile(`returned error: 429\b`), failures.RateLimited},
	{
		regexp.MustCompile(`returned error: [34]\d\d\b|\[remote rejected\]|repository '.*' not found|invalid refspec`),
		failures.InvalidRequest,
	},
	{
		regexp.MustCompile(`(?m)unable to access|RPC failed|hung up|early EOF|disconnect|promisor remote|^(fatal: )?remote`),
		failures.APIError,
	},
	{regexp.MustCompile(``), failures.ResourceError},
}

// failure says who has to act on an error. On errors of git's in the clone that is the machine.
func (t PushTarget) failure(err error) error {
	said, category := fmt.Sprint(err), failures.InvalidRequest
	if e, ok := errors.AsType[*gitError](err); ok {
		category = verdicts[slices.IndexFunc(verdicts, func(v verdict) bool { return v.said.MatchString(e.said) })].category
		if lines := remoteLine.FindAllString(e.said, -1); len(lines) > 0 {
			said = strings.ReplaceAll(strings.Join(lines, " "), "remote: ", "")
		} else if reason := rejected.FindStringSubmatch(e.said); reason != nil {
			said = reason[1]
		}
	} else if errors.Is(err, errMoved) {
		category = failures.APIError
	} else if _, refused := errors.AsType[*RefusedError](err); !refused {
		return err
	}
	// A server may repeat what it was sent.
	said = strings.NewReplacer(t.credentials(), "***", t.Password, "***").Replace(said)
	return failures.Failf(category, "push to branch %s of %s: %s", safetext.Clip(t.Branch, 100), safetext.Clip(t.URL, 200),
		safetext.Clip(said, 300))
}
