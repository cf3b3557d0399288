package codehost_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/testkit/faulttest"
	"github.com/maestro-hive/maestro/internal/testkit/githubtest"
	"github.com/maestro-hive/maestro/internal/testkit/gitlabtest"
)

// faultOf is a fault of testdata/failures.txt.
func faultOf(does, header, body string) faulttest.Fault {
	f := faulttest.Fault{Body: body, Header: map[string]string{}}
	switch does {
	case "primary limit":
		return githubtest.PrimaryLimit(time.Now().Add(20 * time.Minute))
	case "secondary limit":
		f = githubtest.SecondaryLimit(0)
		f.Header = map[string]string{}
	case "endless":
		f.Status, f.Body = http.StatusOK, body+strings.Repeat("x", 33<<20)
	case "silent":
		f.Delay = time.Hour
	default:
		f.Status, _ = strconv.Atoi(does)
		f.Cut, f.Lost = does == "cut", does == "lost"
	}
	for one := range strings.SplitSeq(header, "; ") {
		if name, value, ok := strings.Cut(one, ": "); ok {
			f.Header[name] = value
		}
	}
	return f
}

// asks asks a host that fails, and returns why there is no answer, and what its message has to name.
func asks(t *testing.T, name, does string, fault faulttest.Fault, timeout time.Duration) (names []string, err error) {
	t.Helper()
	if name == "github" {
		s := newSite(t, githubtest.Options{})
		s.Fail(fault)
		o := s.options()
		o.Timeout = timeout
		_, err = s.driverOf(o).Repository(t.Context(), shop)
		return []string{"GitHub at " + strings.TrimPrefix(s.URL, "http://")}, err
	}
	l := newLab(t, gitlabtest.Project{})
	l.Fail(fault)
	if does == "gone" {
		l.Close()
	}
	_, err = driver(t, l.URL(), timeout).Look(t.Context(), labProject, 1)
	require.Equal(t, does == "gone", len(l.Requests()) != 1, "the caller tries again, not the driver")
	return []string{"GitLab at 127.0.0.1:", labProject}, err
}

func TestFailures(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request of %s with the credentials %q", r.URL, r.Header)
	}))
	t.Cleanup(elsewhere.Close)
	data, err := os.ReadFile("testdata/failures.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		token := map[bool]string{true: githubtest.Token, false: gitlabtest.Token}[strings.HasPrefix(line, "github")]
		part := strings.Split(strings.NewReplacer("ELSEWHERE", elsewhere.URL, "TOKEN", token).Replace(line), "|")
		for i := range part {
			part[i] = strings.TrimSpace(part[i])
		}
		t.Run(part[0]+" "+part[1]+" "+part[6], func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if part[1] == "silent" {
				timeout = 50 * time.Millisecond
			}
			names, err := asks(t, part[0], part[1], faultOf(part[1], part[2], part[3]), timeout)
			f := requireFailure(t, err, failures.Category(part[4]), append(names, part[6])...)
			require.NotContains(t, f.Message, token)
			require.NotContains(t, f.Message, "\x1b")
			waits := strings.Fields(part[5])
			least, err := time.ParseDuration(waits[0])
			require.NoError(t, err)
			most, err := time.ParseDuration(waits[len(waits)-1])
			require.NoError(t, err)
			require.GreaterOrEqual(t, f.RetryAfter.Std(), least)
			require.LessOrEqual(t, f.RetryAfter.Std(), most)
		})
	}
}

func TestAnEndedContextIsNoRefusal(t *testing.T) {
	t.Parallel()
	l := newLab(t, gitlabtest.Project{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.host.Repository(ctx, labProject)
	requireFailure(t, err, failures.APIError)
}

// asksEverything gives a driver all that it may be asked. What it answers is no matter: it goes on.
func asksEverything(ctx context.Context, h delivery.Host, repository string, ids ...string) {
	_, _ = h.Look(ctx, repository, 1)
	_, _ = h.Repository(ctx, repository)
	_, _ = h.Find(ctx, repository, "work", "main")
	_, _ = h.Open(ctx, repository, delivery.New{Branch: "work", Base: "main", Title: "Shout", Labels: []string{"x"}})
	_, _ = h.Merge(ctx, repository, 1, "a", "merge")
	_ = h.Resolve(ctx, repository, 1, "1")
	_ = h.Comment(ctx, repository, 1, "", "x")
	_ = h.Edit(ctx, repository, 1, delivery.Edit{Body: "x", Ready: true, Reviewers: []string{"ben"}})
	for _, id := range ids {
		_, _ = h.CheckLog(ctx, repository, delivery.Check{ID: id})
		_ = h.Rerun(ctx, repository, delivery.Check{ID: id})
	}
}

// TestAnswersWithoutContent gives the drivers answers that have the right form and no content, some after right ones.
func TestAnswersWithoutContent(t *testing.T) {
	t.Parallel()
	const whole = `{"number": 1, "iid": 1, "state": "open", "login": "x", "sha": "a", "head": {"sha": "a"}, "head_pipeline":
		{"id": 1, "sha": "a"}}`
	for _, body := range []string{
		"null", "{}", "[]", "[null]", `[{"user": null, "app": null, "author": null, "check_suite": null}]`, `"x"`, "7", "",
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			s, l := newSite(t, githubtest.Options{}), newLab(t, gitlabtest.Project{})
			g := s.driver()
			for _, right := range []string{"", "/1", "/1 /user", "/1 /approvals", "/1 /approvals /reviewers /discussions"} {
				for _, host := range []interface {
					Mend()
					Fail(f faulttest.Fault)
				}{s, l} {
					host.Mend()
					host.Fail(faulttest.Fault{Status: 200, Body: body})
					for _, path := range strings.Fields(right) {
						host.Fail(faulttest.Fault{Status: 200, Body: whole}.On(http.MethodGet, path))
					}
				}
				asksEverything(t.Context(), g, shop, "job-1", "run-1-2", "status-a-1", "workflow-1", "", "x")
				asksEverything(t.Context(), l.host, labProject, "job/1", "status/1", "pipeline/1")
			}
		})
	}
}
