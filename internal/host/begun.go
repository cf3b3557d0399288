package host

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// begun notes beside the worker's seat which workflow tasks it has begun, so
// that after a crash they need not wait for their timeout of 10 s. Between
// phases a session is such a task. What is lost of the notes costs that wait
// and nothing else: a task's token is good for this one task only.
type begun struct {
	mu sync.Mutex
	// path is where the notes are; empty: none are taken. They are not kept
	// open: that would keep the store's file system from being made read-only.
	path   string
	size   int64
	tokens map[string]bool
}

// maxNotes is the size at which the notes are written anew, in bytes.
const maxNotes = 1 << 20

// open takes up the notes at path and returns the tokens of the tasks that the
// last holder of the seat had begun and not ended.
func (b *begun) open(path string) (left [][]byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the notes of begun tasks: %w", err)
	}
	tokens := map[string]bool{}
	for line := range bytes.Lines(data) {
		token, err := base64.StdEncoding.DecodeString(string(bytes.TrimRight(line[1:], "\n")))
		if err != nil || len(token) == 0 {
			continue // cut off by the crash
		}
		if line[0] == '+' {
			tokens[string(token)] = true
		} else {
			delete(tokens, string(token))
		}
	}
	for token := range tokens {
		left = append(left, []byte(token))
	}
	b.path, b.tokens = path, map[string]bool{}
	b.anew()
	return left, nil
}

// intercept notes what passes between the worker and Temporal.
func (b *begun) intercept(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	switch r := req.(type) {
	case *workflowservice.RespondWorkflowTaskCompletedRequest:
		b.end(r.GetTaskToken(), err)
	case *workflowservice.RespondWorkflowTaskFailedRequest:
		b.end(r.GetTaskToken(), err)
	}
	if err != nil {
		return err
	}
	switch r := reply.(type) {
	case *workflowservice.PollWorkflowTaskQueueResponse:
		b.begin(r)
	case *workflowservice.RespondWorkflowTaskCompletedResponse:
		b.begin(r.GetWorkflowTask())
	}
	return nil
}

func (b *begun) begin(task *workflowservice.PollWorkflowTaskQueueResponse) {
	token := task.GetTaskToken()
	if len(token) == 0 || task.GetQuery() != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != "" {
		b.tokens[string(token)] = true
		b.note('+', token)
	}
}

// end forgets a task, unless Temporal may not have heard of its end.
func (b *begun) end(token []byte, err error) {
	if slices.Contains([]codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Canceled}, status.Code(err)) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path == "" {
		return
	}
	delete(b.tokens, string(token))
	if b.note('-', token); len(b.tokens) == 0 || b.size > maxNotes {
		b.anew()
	}
}

// note adds a line. Notes may be lost.
func (b *begun) note(what byte, token []byte) {
	b.write(os.O_APPEND, line(what, token))
}

// anew drops what is of no more use.
func (b *begun) anew() {
	b.size = 0
	var lines []byte
	for token := range b.tokens {
		lines = append(lines, line('+', []byte(token))...)
	}
	b.write(os.O_TRUNC, lines)
}

func line(what byte, token []byte) []byte {
	return append(base64.StdEncoding.AppendEncode([]byte{what}, token), '\n')
}

func (b *begun) write(how int, lines []byte) {
	f, err := os.OpenFile(b.path, os.O_CREATE|os.O_WRONLY|how, 0o600)
	if err != nil {
		return
	}
	n, _ := f.Write(lines)
	b.size += int64(n)
	_ = f.Close()
}

// giveBack has Temporal start the tasks again, at once.
func giveBack(ctx context.Context, service workflowservice.WorkflowServiceClient, namespace, identity string, tokens [][]byte) (n int, err error) {
	for _, token := range tokens {
		_, failed := service.RespondWorkflowTaskFailed(ctx, &workflowservice.RespondWorkflowTaskFailedRequest{
			TaskToken: token, Namespace: namespace, Identity: identity,
			Cause:   enumspb.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE,
			Failure: &failurepb.Failure{Message: "the worker died and is back"},
		})
		var over *serviceerror.NotFound           // it has timed out, or was ended after all
		var foreign *serviceerror.InvalidArgument // it was another server's
		switch {
		case failed == nil:
			n++
		case !errors.As(failed, &over) && !errors.As(failed, &foreign):
			err = errors.Join(err, failed)
		}
	}
	return n, err
}
