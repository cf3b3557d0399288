package providertest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/providertest"
)

// post sends a body and returns the answer's status and body.
func post(t *testing.T, url, body string) (*http.Response, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response, string(data), err
}

// TestToolCallsNeedTheirResults holds clients to what providers hold them to.
func TestToolCallsNeedTheirResults(t *testing.T) {
	t.Parallel()
	server := providertest.New(t, func(providertest.Request) providertest.Reply { return providertest.Say("hello") })
	const call = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"read","input":{}}]}`
	response, _, err := post(t, server.URL()+"/v1/messages", `{"messages":[`+call+`,{"role":"user","content":"and?"}]}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	response, _, err = post(t, server.URL()+"/v1/messages", `{"messages":[`+call+
		`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"b"}]}]}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, []providertest.Result{{ID: "a", Text: "b"}}, server.Requests()[1].Last().Results)
}
