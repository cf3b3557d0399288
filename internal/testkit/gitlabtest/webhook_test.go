package gitlabtest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/gitlabtest"
)

func TestWebhooksAreToldWhatHappens(t *testing.T) {
	t.Parallel()
	type told struct {
		name, token, kind, action string
	}
	calls := make(chan told, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			Kind       string                  `json:"object_kind"`
			Project    struct{ ID int }        `json:"project"`
			Attributes struct{ Action string } `json:"object_attributes"`
		}
		data, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(data, &body)
		calls <- told{r.Header.Get("X-Gitlab-Event"), r.Header.Get("X-Gitlab-Token"), body.Kind, body.Attributes.Action}
	}))
	defer receiver.Close()
	s := gitlabtest.New(t, gitlabtest.Options{})
	s.AddProject(gitlabtest.Project{Name: "acme/shop"})
	s.SendTo(receiver.URL, "secret")

	s.Push("acme/shop", "work", map[string]string{"a.txt": "a\n"})
	number := s.Open("acme/shop", "work", "Add a", false)
	s.Comment("acme/shop", number, "rita", "@maestro please")
	s.SetJob("acme/shop", "work", gitlabtest.Job{Name: "unit", Status: "failed"})
	s.OpenIssue("acme/shop", 1, "rita", "It fails", "Text.", "maestro")
	s.MergeMergeRequest("acme/shop", number, "rita")
	for _, want := range []told{
		{gitlabtest.MergeRequestHook, "secret", "merge_request", "open"},
		{gitlabtest.NoteHook, "secret", "note", "create"},
		{gitlabtest.PipelineHook, "secret", "pipeline", ""},
		{gitlabtest.IssueHook, "secret", "issue", "open"},
		{gitlabtest.MergeRequestHook, "secret", "merge_request", "merge"},
	} {
		require.Equal(t, want, <-calls)
	}

	// A test delivers an event again, and late.
	again := s.Events()[1]
	status, err := again.Deliver(t.Context(), receiver.URL, "other")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, told{gitlabtest.NoteHook, "other", "note", "create"}, <-calls)
}
