package devserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	readyPatience = 30 * time.Second
	readyPause    = 10 * time.Millisecond
	// nowhere is a workflow that does not exist. To say so, the frontend has to ask history, which has to own its shard.
	nowhere = "maestro-server-readiness"
)

// awaitReady returns when the server answers a question that needs the frontend, history and the database.
func (s *Server) awaitReady(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyPatience, errors.New("the server did not answer in time"))
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	frontend := workflowservice.NewWorkflowServiceClient(conn)
	for {
		_, err := frontend.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: DefaultNamespace,
			Execution: &commonpb.WorkflowExecution{WorkflowId: nowhere},
		})
		if err == nil || status.Code(err) == codes.NotFound {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-s.life.died:
			return s.life.err
		case <-time.After(readyPause):
		}
	}
}
