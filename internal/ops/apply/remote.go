package apply

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
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
	refusef := func(format string, args ...any) error {
		return failures.Failf(failures.InvalidRequest, format, args...)
	}
	u, err := url.Parse(t.URL)
	if err != nil || u.User != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return refusef("%s is not the address of a repository, like https://example.org/acme/shop.git", safetext.Name(t.URL))
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return refusef("%s would send the credentials without encryption; use https", safetext.Name(t.URL))
	}
	if t.Password == "" {
		return failures.Failf(failures.Auth, "there are no credentials for %s", t.URL)
	}
	for _, c := range slices.Concat(t.Resolved, []string{t.StartedOn, t.Previous}) {
		if c != "" && !commitName.MatchString(c) {
			return refusef("%s is not the name of a commit", safetext.Name(c))
		}
	}
	return nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// git is git in the clone. It has the credentials in its environment only, and no settings but these.
func (t PushTarget) git() git {
	g := gitIn(t.Dir, slices.DeleteFunc(slices.Clone(t.Environ), func(entry string) bool {
		return strings.HasPrefix(entry, "GIT_") || strings.HasPrefix(entry, "SSH_ASKPASS=")
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
		{"transfer.fsckObjects", "true"},
	}
	if strings.HasPrefix(t.URL, "http:") {
		settings = append(settings, [2]string{"protocol.http.allow", "always"})
	}
	// Old repositories have these, and they do no harm.
	for _, harmless := range []string{"zeroPaddedFilemode", "badTimezone", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "badEmail"} {
		settings = append(settings, [2]string{"fetch.fsck." + harmless, "ignore"})
	}
	for i, s := range settings {
		g = g.with(fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	at := fmt.Sprintf("@%d +0000", t.At.Unix())
	return g.with(fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_ATTR_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "GIT_LITERAL_PATHSPECS=1", "GIT_DIR="+t.Dir,
		"GIT_AUTHOR_NAME="+t.Name, "GIT_AUTHOR_EMAIL="+t.Mail, "GIT_AUTHOR_DATE="+at,
		"GIT_COMMITTER_NAME="+t.Name, "GIT_COMMITTER_EMAIL="+t.Mail, "GIT_COMMITTER_DATE="+at)
}

func (t PushTarget) credentials() string {
	return base64.StdEncoding.EncodeToString([]byte(t.User + ":" + t.Password))
}

// fetch brings the clone up to date.
func (p *pushing) fetch(ctx context.Context) error {
	base := "refs/heads/" + p.target.Base
	for _, ref := range []string{base, p.ref} {
		if _, err := p.git.run(ctx, nil, "check-ref-format", ref); err != nil || strings.HasPrefix(ref, "refs/heads/-") {
			return failures.Failf(failures.InvalidRequest, "%s is not a valid name of a branch", safetext.Name(ref))
		}
	}
	if _, err := p.git.run(ctx, nil, "init", "--quiet", "--bare", "--template="); err != nil {
		return err
	}
	list, err := p.git.run(ctx, nil, "ls-remote", "origin", base, p.ref)
	if err != nil {
		return err
	}
	heads := map[string]string{}
	for line := range strings.Lines(list) {
		commit, ref, _ := strings.Cut(strings.TrimSpace(line), "\t")
		heads[ref] = commit
	}
	if heads[base] == "" {
		return failures.Failf(failures.InvalidRequest, "%s has no branch %s to build on", p.target.URL, p.target.Base)
	}
	refs := []string{"+" + base + ":" + baseRef}
	if heads[p.ref] != "" {
		refs = append(refs, "+"+p.ref+":"+branchRef)
	}
	if err := p.fetchRefs(ctx, refs...); err != nil {
		return err
	}
	if p.base, err = p.git.run(ctx, nil, "rev-parse", "--verify", baseRef+"^{commit}"); err == nil && heads[p.ref] != "" {
		p.head, err = p.git.run(ctx, nil, "rev-parse", "--verify", branchRef+"^{commit}")
	}
	return err
}

// fetchRefs fetches commits and trees. Files are fetched when they are needed, if the remote permits that.
func (p *pushing) fetchRefs(ctx context.Context, refs ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--filter=blob:none", "origin"}
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

// What git and servers say.
var (
	unknownCommit = regexp.MustCompile(`not our ref|unadvertised object|find remote ref|no such remote ref`)
	fromRemote    = regexp.MustCompile(`(?m)unable to access|RPC failed|hung up|early EOF|disconnect|Authentication failed|` +
		`could not read (Username|Password)|not found|promisor remote|^remote: |^fatal: remote error`)
	unauthorized = regexp.MustCompile(`returned error: 40[13]\b|Authentication failed|could not read (Username|Password)`)
	limitedRate  = regexp.MustCompile(`returned error: 429\b`)
	refused      = regexp.MustCompile(`returned error: [34]\d\d\b|(?i:repository '[^']*' not found)|\[remote rejected\]`)
	moved        = regexp.MustCompile(`\[rejected\]|is at [0-9a-f]+ but expected|failed to update ref|reference already exists`)
	reason       = regexp.MustCompile(`\[remote rejected\] \((.*)\)`)
)

// isDamage reports whether a command has failed for a reason that is not the remote's.
func isDamage(err error) bool {
	e, ok := errors.AsType[*gitError](err)
	return ok && e.command != "push" && e.command != "ls-remote" && !badPath(e) && !fromRemote.MatchString(e.said)
}

// badPath reports whether git refuses a path of the session, like one in a directory .git.
func badPath(e *gitError) bool {
	return e.command == "update-index" && strings.Contains(e.said, "nvalid path")
}

// failure says who has to act on an error of git's.
func (t PushTarget) failure(err error) error {
	if errors.Is(err, errMoved) {
		return failures.Failf(failures.APIError, "others push to branch %s of %s at the same time", t.Branch, t.URL)
	}
	e, ok := errors.AsType[*gitError](err)
	if !ok {
		return err
	}
	category := failures.APIError
	switch remote := e.command == "push" || e.command == "ls-remote" || fromRemote.MatchString(e.said); {
	case badPath(e):
		category = failures.InvalidRequest
	case !remote:
		category = failures.ResourceError
	case unauthorized.MatchString(e.said):
		category = failures.Auth
	case limitedRate.MatchString(e.said):
		category = failures.RateLimited
	case refused.MatchString(e.said):
		category = failures.InvalidRequest
	}
	// A server may repeat what it was sent.
	said := strings.NewReplacer(t.credentials(), "***", t.Password, "***").Replace(sentence(e.said))
	return failures.Failf(category, "git %s, branch %s of %s: %s", e.command, t.Branch, t.URL, said)
}

// sentence is what a server says about an error, or else what git says.
func sentence(said string) string {
	var words []string
	for line := range strings.Lines(said) {
		if text, ok := strings.CutPrefix(line, "remote: "); ok {
			words = append(words, text)
		}
	}
	if len(words) == 0 {
		if found := reason.FindStringSubmatch(said); found != nil {
			words = found[1:]
		} else {
			words = []string{said}
		}
	}
	return safetext.Clip(strings.Join(words, " "), 300)
}
