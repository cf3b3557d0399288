// Package devserver runs a complete Temporal service in this process: all of Temporal's services on one SQLite
// database, and the Web UI. It is made for one machine: no TLS, no authentication, one history shard.
package devserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	ui "github.com/temporalio/ui-server/v2/server"
	"go.temporal.io/server/temporal"
)

// stopPatience bounds a stop. What is left then is cut off, and nothing is lost by it: every acknowledged write is in
// the database.
const stopPatience = 5 * time.Second

// Server is a running Temporal service.
type Server struct {
	address   string
	uiAddress string
	temporal  temporal.Server
	ui        *ui.Server
	database  *database
	life      *lifecycle
}

// Start returns a server that answers. It fails when a port or the database file is in use, when an option makes no
// sense (all such faults are reported together), and when ctx ends first. One process may run several.
func Start(ctx context.Context, options Options) (*Server, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, options.DBFilename)
	if err != nil {
		return nil, err
	}
	server, err := startOn(ctx, options, db)
	if err != nil {
		db.close()
		return nil, err
	}
	return server, nil
}

func startOn(ctx context.Context, options Options, db *database) (*Server, error) {
	ports, err := choosePorts(ctx, options)
	if err != nil {
		return nil, err
	}
	defer ports.release()
	if err := ensureNamespaces(ctx, db.config, options.Namespaces, options.SearchAttributes); err != nil {
		return nil, err
	}
	server := &Server{
		address:  net.JoinHostPort(reachable(options.IP), strconv.Itoa(ports.frontend)),
		database: db,
		life:     newLifecycle(),
	}
	if err := server.startTemporal(ctx, options, ports); err != nil {
		return nil, err
	}
	if err := server.awaitReady(ctx); err != nil {
		return nil, err
	}
	server.life.serving.Store(true)
	if !options.Headless {
		server.startUI(options.UIIP, ports.ui)
	}
	return server, nil
}

// startTemporal starts the services in a goroutine of its own, which a fatal fault ends (see logger.Fatal).
func (s *Server) startTemporal(ctx context.Context, options Options, ports *ports) error {
	started := make(chan error, 1)
	go func() {
		defer s.life.absorb()
		var err error
		s.temporal, err = temporal.NewServer(serverOptions(options, ports, s.database.config, s.life)...)
		if err == nil {
			err = s.temporal.Start()
		}
		started <- err
	}()
	select {
	case err := <-started:
		return err
	case <-s.life.died:
		return s.life.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Server) startUI(ip string, port int) {
	s.ui = newWebUI(ip, port, s.address)
	s.uiAddress = uiAddress(ip, port)
	go func() {
		if err := s.ui.Start(); err != nil {
			s.life.die(fmt.Errorf("web UI: %w", err))
		}
	}()
}

// Address is the host and port for clients on this machine.
func (s *Server) Address() string { return s.address }

// UIAddress is the Web UI's URL for browsers on this machine; empty for a headless server.
func (s *Server) UIAddress() string { return s.uiAddress }

// Done is closed when the server has died of a fault; Err then tells of which. A stop does not close it.
func (s *Server) Done() <-chan struct{} { return s.life.died }

// Err is the fault that Done announces, nil before.
func (s *Server) Err() error {
	select {
	case <-s.life.died:
		return s.life.err
	default:
		return nil
	}
}

// Stop ends the server within 5 seconds. Everything that it has acknowledged is in the database file, also after an
// error, which means that the services did not end in time and are cut off with the process.
func (s *Server) Stop() error {
	s.life.serving.Store(false)
	if s.ui != nil {
		s.ui.Stop()
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.temporal.Stop() }()
	select {
	case err := <-stopped:
		s.database.close()
		return err
	case <-time.After(stopPatience):
		return errors.New("temporal's services did not stop in time")
	}
}
