package jiratest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/jiratest"
)

// ask sends a request with the account's credentials and returns the answer.
func ask(t *testing.T, s *jiratest.Server, dataCenter bool, method, path, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
	require.NoError(t, err)
	if dataCenter {
		r.Header.Set("Authorization", "Bearer "+jiratest.Token)
	} else {
		r.SetBasicAuth(jiratest.Email, jiratest.Token)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

const (
	plain  = `"text"`
	doc    = `{"type":"doc","version":1,"content":[{"type":"paragraph","content":[{"type":"text","text":"text"}]}]}`
	fields = `{"fields":{"project":{"key":"MD"},"issuetype":{"name":"Bug"},"summary":"s","description":`
)

func TestTextsAreText(t *testing.T) {
	t.Parallel()
	for _, dataCenter := range []bool{false, true} {
		s := jiratest.New(t, jiratest.Options{DataCenter: dataCenter})
		const issue = "/rest/api/2/issue"
		status, body := ask(t, s, dataCenter, http.MethodPost, issue, fields+doc+"}}")
		require.Equal(t, 400, status)
		require.Contains(t, body, `"errorMessages":[],"errors":{"description":"Operation value must be a`)
		status, body = ask(t, s, dataCenter, http.MethodPost, issue, fields+plain+"}}")
		require.Equal(t, 201, status)
		require.Contains(t, body, `"key":"MD-1"`)
		status, _ = ask(t, s, dataCenter, http.MethodPost, issue+"/MD-1/comment", `{"body":`+doc+`}`)
		require.Equal(t, 400, status)
		status, _ = ask(t, s, dataCenter, http.MethodPost, issue+"/MD-1/comment", `{"body":`+plain+`}`)
		require.Equal(t, 201, status)
	}
}

func TestPathsOfTheOtherVersionAreNotServed(t *testing.T) {
	t.Parallel()
	cloud, server := jiratest.New(t, jiratest.Options{}), jiratest.New(t, jiratest.Options{DataCenter: true})
	status, body := ask(t, cloud, false, http.MethodGet, "/rest/api/2/search?jql=x", "")
	require.Equal(t, http.StatusGone, status)
	require.Contains(t, body, "/rest/api/3/search/jql")
	status, _ = ask(t, server, true, http.MethodGet, "/rest/api/3/myself", "")
	require.Equal(t, http.StatusNotFound, status)
	status, _ = ask(t, server, false, http.MethodGet, "/rest/api/2/myself", "")
	require.Equal(t, http.StatusUnauthorized, status, "a Data Center wants a token")
	status, _ = ask(t, cloud, true, http.MethodGet, "/rest/api/2/myself", "")
	require.Equal(t, http.StatusUnauthorized, status, "Cloud wants an email and a token")
}

func TestFaultsHappenAsOftenAsTheyAreSet(t *testing.T) {
	t.Parallel()
	s := jiratest.New(t, jiratest.Options{})
	s.Fail(jiratest.Refusal(403, nil, "No.").On(http.MethodGet, "/myself").Once())
	status, _ := ask(t, s, false, http.MethodGet, "/rest/api/2/mypermissions?projectKey=MD&permissions=ADD_COMMENTS", "")
	require.Equal(t, 200, status)
	status, body := ask(t, s, false, http.MethodGet, "/rest/api/2/myself", "")
	require.Equal(t, 403, status)
	require.JSONEq(t, `{"errorMessages":["No."],"errors":{}}`, body)
	status, _ = ask(t, s, false, http.MethodGet, "/rest/api/2/myself", "")
	require.Equal(t, 200, status)
	s.Fail(jiratest.Fault{Status: 500})
	status, _ = ask(t, s, false, http.MethodGet, "/rest/api/2/myself", "")
	require.Equal(t, 500, status)
	s.Mend()
	status, _ = ask(t, s, false, http.MethodGet, "/rest/api/2/myself", "")
	require.Equal(t, 200, status)
	require.Len(t, s.Requests(), 5)
}
