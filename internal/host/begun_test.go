package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// polled has the notes see that a task came in.
func (b *begun) polled(t *testing.T, task *workflowservice.PollWorkflowTaskQueueResponse) {
	t.Helper()
	require.NoError(t, b.intercept(t.Context(), "", &workflowservice.PollWorkflowTaskQueueRequest{}, task, nil, answer(nil)))
}

// responded has the notes see how a task was ended.
func (b *begun) responded(t *testing.T, token string, reply *workflowservice.RespondWorkflowTaskCompletedResponse, err error) {
	t.Helper()
	request := &workflowservice.RespondWorkflowTaskCompletedRequest{TaskToken: []byte(token)}
	require.ErrorIs(t, b.intercept(t.Context(), "", request, reply, nil, answer(err)), err)
}

func answer(err error) grpc.UnaryInvoker {
	return func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return err }
}

func task(token string) *workflowservice.PollWorkflowTaskQueueResponse {
	return &workflowservice.PollWorkflowTaskQueueResponse{TaskToken: []byte(token)}
}

// left is what the next holder of the seat finds.
func left(t *testing.T, path string) []string {
	t.Helper()
	tokens, err := new(begun).open(path)
	require.NoError(t, err)
	names := []string{}
	for _, token := range tokens {
		names = append(names, string(token))
	}
	return names
}

func TestBegunTasksAreFoundAfterACrash(t *testing.T) {
	t.Parallel()
	none := &workflowservice.RespondWorkflowTaskCompletedResponse{}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, b *begun)
		want []string
	}{
		{"nothing was begun", func(t *testing.T, b *begun) { b.polled(t, task("")) }, []string{}},
		{"begun", func(t *testing.T, b *begun) { b.polled(t, task("a")); b.polled(t, task("b")) }, []string{"a", "b"}},
		{"ended", func(t *testing.T, b *begun) {
			b.polled(t, task("a"))
			b.polled(t, task("b"))
			b.responded(t, "a", none, nil)
		}, []string{"b"}},
		{"ended, Temporal knows nothing of it", func(t *testing.T, b *begun) {
			b.polled(t, task("a"))
			b.responded(t, "a", none, status.Error(codes.NotFound, "gone"))
		}, []string{}},
		{"ended, Temporal could not be told", func(t *testing.T, b *begun) {
			b.polled(t, task("a"))
			b.responded(t, "a", none, status.Error(codes.Unavailable, "down"))
		}, []string{"a"}},
		{"the end brings the next", func(t *testing.T, b *begun) {
			b.polled(t, task("a"))
			b.responded(t, "a", &workflowservice.RespondWorkflowTaskCompletedResponse{WorkflowTask: task("b")}, nil)
		}, []string{"b"}},
		{"queries need no answer", func(t *testing.T, b *begun) {
			q := task("a")
			q.Query = &querypb.WorkflowQuery{}
			b.polled(t, q)
		}, []string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "tasks")
			b := &begun{}
			_, err := b.open(path)
			require.NoError(t, err)
			c.do(t, b)
			require.ElementsMatch(t, c.want, left(t, path))
			require.Empty(t, left(t, path), "each is found once")
		})
	}
}

func TestNotesOfBegunTasksStaySmallAndMayBeTorn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks")
	b := &begun{}
	_, err := b.open(path)
	require.NoError(t, err)
	long := string(make([]byte, 1000))
	b.polled(t, task("stays"))
	for range 2000 {
		b.polled(t, task(long))
		b.responded(t, long, &workflowservice.RespondWorkflowTaskCompletedResponse{}, nil)
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Less(t, len(data), 2*maxNotes)
	require.NoError(t, os.WriteFile(path, append(data, "\n+\n+YW"...), 0o600))
	require.Equal(t, []string{"stays"}, left(t, path))

	unnoticed := &begun{} // never opened
	unnoticed.polled(t, task("a"))
	unnoticed.responded(t, "a", nil, errors.New("whatever"))
}
