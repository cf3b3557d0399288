package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	ui "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	readyPatience = 30 * time.Second
	readyPause    = 10 * time.Millisecond
	// stopPatience bounds a stop. What is left then is cut off, and nothing is lost by it: every acknowledged write is in
	// the database.
	stopPatience = 5 * time.Second
)

// Server is a running Temporal service.
type Server struct {
	// Address is the host and port for clients on this machine.
	Address string
	// UIAddress is the Web UI's URL for browsers on this machine; empty for a headless server.
	UIAddress string

	temporal temporal.Server
	ui       *ui.Server
	database *database
	serving  atomic.Bool
}

// Start returns a server that answers. It fails when a port or the database file is in use or cannot be used, and
// when ctx ends first. One process may run several.
func Start(ctx context.Context, options Options) (*Server, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	ports, err := choosePorts(ctx, options)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, options.DBFilename)
	if err != nil {
		return nil, err
	}
	s := &Server{database: db}
	if err := s.start(ctx, options, ports); err != nil {
		db.unlock()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, options Options, ports ports) (err error) {
	if err := ensureNamespaces(s.database.config, options.Namespaces, options.SearchAttributes); err != nil {
		return fmt.Errorf("database file %s: %w", options.DBFilename, err)
	}
	s.Address = net.JoinHostPort(options.IP, strconv.Itoa(ports.frontend))
	s.temporal, err = temporal.NewServer(serverOptions(options, ports, s.database.config, &s.serving)...)
	if err == nil {
		err = s.temporal.Start()
	}
	if err == nil {
		err = s.awaitReady(ctx)
	}
	if err != nil {
		return err
	}
	s.serving.Store(true)
	if options.Headless {
		return nil
	}
	s.UIAddress = "http://" + net.JoinHostPort(options.IP, strconv.Itoa(ports.ui))
	s.ui = newWebUI(options.IP, ports.ui, s.Address)
	go func() {
		if err := s.ui.Start(); err != nil {
			options.Fatal(fmt.Errorf("web UI: %w", err))
		}
	}()
	return nil
}

// newWebUI makes Temporal's Web UI, its pages embedded in the binary. It asks nothing on the Internet: neither news nor
// newer versions.
func newWebUI(ip string, port int, frontend string) *ui.Server {
	return ui.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		Host:                strings.TrimSuffix(net.JoinHostPort(ip, ""), ":"), // brackets around an address of IPv6
		Port:                port,
		TemporalGRPCAddress: frontend,
		EnableUI:            true,
		DefaultNamespace:    DefaultNamespace,
		DisableNewsFetch:    true,
		HideLogs:            true,
		// Served over plain HTTP: browsers would drop a cookie that is marked as secure.
		CORS: uiconfig.CORS{CookieInsecure: true},
	}))
}

// awaitReady returns when the server answers a question that needs the frontend, history and the database: it asks for a
// workflow that does not exist, and to say so, the frontend has to ask history, which has to own its shard.
func (s *Server) awaitReady(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyPatience, errors.New("the server did not answer in time"))
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+s.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for {
		_, err := workflowservice.NewWorkflowServiceClient(conn).DescribeWorkflowExecution(ctx,
			&workflowservice.DescribeWorkflowExecutionRequest{
				Namespace: DefaultNamespace, Execution: &commonpb.WorkflowExecution{WorkflowId: "maestro-server-readiness"},
			})
		if err == nil || status.Code(err) == codes.NotFound {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(readyPause):
		}
	}
}

// Stop ends the server within 5 seconds. Everything that it has acknowledged is in the database file, also after an
// error, which means that the services did not end in time and are cut off with the process.
func (s *Server) Stop() error {
	s.serving.Store(false)
	if s.ui != nil {
		s.ui.Stop()
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.temporal.Stop() }()
	select {
	case err := <-stopped:
		s.database.unlock()
		return err
	case <-time.After(stopPatience):
		return errors.New("temporal's services did not stop in time")
	}
}
