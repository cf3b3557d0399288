package service

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/maestro-hive/maestro/internal/agent"
	"github.com/maestro-hive/maestro/internal/caches"
	"github.com/maestro-hive/maestro/internal/cas"
	"github.com/maestro-hive/maestro/internal/diskspace"
	"github.com/maestro-hive/maestro/internal/store"
	"github.com/maestro-hive/maestro/internal/telemetry"
	"github.com/maestro-hive/maestro/internal/temporalutil"
	"github.com/maestro-hive/maestro/internal/workdir"
	"github.com/maestro-hive/maestro/workflows"
)

// DefaultDrain is how long a stopping worker lets attempts continue.
const DefaultDrain = 20 * time.Second

// Setup has the parameters of a worker process.
type Setup struct {
	// Config is the parsed worker file.
	Config agent.Config
	// File is the worker file's path, to reload it at a signal from Reloads; empty:
	// it is never reloaded.
	File    string
	Reloads <-chan os.Signal
	// Agents replaces the worker file's agents and checks; nil: they are used.
	Agents Agents
	// WebUI is the address of Temporal's Web UI, if the worker file has none.
	WebUI string
	// StateDir is the store's directory. The store is created if it does not exist.
	StateDir string
	// Connection to Temporal. The caller closes it.
	Connection *temporalutil.Connection
	// Getenv reads the worker's environment. Agents get parts of it.
	Getenv func(string) string
	// Host and PID name the process. Version is the version of the build, without
	// blanks, and Commit its commit, if that is known.
	Host            string
	PID             int
	Version, Commit string
	// Drain is how long attempts may continue after a stop.
	Drain time.Duration
	// Telemetry records metrics and traces; nil: none. It must have instrumented
	// the connection, too. The caller closes it.
	Telemetry *telemetry.Telemetry
	// Clock returns the current time.
	Clock  func() time.Time
	Logger *slog.Logger

	gateway *agent.Gateway
}

// Build makes the worker: its store, its agents and its slot among the store's
// workers. It starts nothing.
func (s Setup) Build() (*Worker, error) {
	cfg := s.Config.WithDefaults()
	s.gateway = agent.NewGateway(s.Clock, s.Logger)
	st, err := OpenStore(s.StateDir, cfg, s.Clock)
	if err == nil {
		err = st.State.Check(context.Background())
	}
	if err != nil {
		return nil, err
	}
	p, err := s.plan(cfg, st)
	if err != nil {
		return nil, err
	}
	place, err := acquireSlot(filepath.Join(st.Dir(), "workers"), s.Host)
	if err != nil {
		return nil, err
	}
	o := options{
		Client: s.Connection.Client, Namespace: s.Connection.Namespace, Store: st, Plan: p, Reloads: s.Reloads, File: s.File,
		Attributes: temporalutil.NewSearchAttributes(s.Connection, s.Connection.Namespace, s.Clock, workflows.SearchAttributes()...),
		Address:    s.Connection.Address,
		Slot:       place, Identity: identity(st.ID(), place, s.Version), Host: s.Host, PID: s.PID, Version: s.Version, Commit: s.Commit,
		Drain: s.Drain, Telemetry: s.Telemetry, Clock: s.Clock, Logger: s.Logger, Gateway: s.gateway,
	}
	if s.File != "" {
		o.Reread = s.reloadPlan
	}
	return newWorker(o), nil
}

// OpenStore opens the store in dir, making it if there is none, with the worker
// file's limits on what a tree may hold.
func OpenStore(dir string, cfg agent.Config, clock func() time.Time) (*store.Store, error) {
	return store.Create(dir, StoreOptions(cfg, clock))
}

// StoreOptions returns the options of a store with the worker file's limits.
func StoreOptions(cfg agent.Config, clock func() time.Time) store.Options {
	return store.Options{
		Clock:  clock,
		Limits: cas.Limits{Files: cfg.Limits.Files, FileBytes: int64(cfg.Limits.FileBytes), TreeBytes: int64(cfg.Limits.TreeBytes)},
	}
}

// newAgents returns the agents and checks of a worker file. The options get the directories.
func newAgents(st *store.Store, cfg agent.Config, o agent.Options) (*agent.Set, error) {
	work := workBeside(st.Dir(), cfg)
	o.CacheRoot, o.WorkRoot, o.Hidden = cacheRoot(st, cfg), filepath.Join(work, "layers"), []string{st.Dir(), work}
	set, err := agent.New(cfg, o)
	if err != nil {
		return nil, fmt.Errorf("worker file: %w", err)
	}
	return set, nil
}

// newWorkDirs returns the directories on this host in which agents work.
func newWorkDirs(st *store.Store, cfg agent.Config, agents Agents, shared *caches.Caches, logger *slog.Logger, clock func() time.Time) (*workdir.Dirs, error) {
	o := workdir.Options{
		Root:       workdir.DefaultRoot(st.Dir()),
		MaxWritten: int64(cfg.Limits.DiskBytes), MaxWrittenFiles: int64(cfg.Limits.DiskFiles),
	}
	if cfg.RunAs != "" {
		o.Root, o.Shared = workdir.SharedRoot(st.Dir()), true
	}
	finished := &finishedWork{store: st, logger: logger, clock: clock}
	full := &space{dir: workBeside(st.Dir(), cfg), ways: []func(context.Context) bool{finished.free, shared.Free}, clock: clock}
	full.ways = append(full.ways, func(context.Context) bool { return caches.FreeBases(cacheRoot(st, cfg)) })
	if set, ok := agents.(layered); ok && set.HasLayers() {
		cache, err := newLayerCache(filepath.Join(workBeside(st.Dir(), cfg), "layers"), st, set, logger, clock)
		if err != nil {
			return nil, err
		}
		o.Acquire, full.ways = cache.acquire, slices.Insert(full.ways, 0, cache.free)
	}
	o.Free = full.free
	finished.dirs = workdir.New(o)
	return finished.dirs, nil
}

// newCaches returns the caches of a worker file on this host.
func newCaches(st *store.Store, cfg agent.Config, logger *slog.Logger, clock func() time.Time) *caches.Caches {
	limits := diskspace.Used{Bytes: int64(cfg.Limits.CacheBytes), Files: cfg.Limits.DiskFiles}
	return caches.New(caches.Options{Root: cacheRoot(st, cfg), Max: limits, Clock: clock, Logger: logger})
}

// cacheRoot returns the directory of the caches.
func cacheRoot(st *store.Store, cfg agent.Config) string {
	return filepath.Join(workBeside(st.Dir(), cfg), "caches")
}

// workBeside returns the directory of working directories and caches: in the store or, if
// agents run as another user, who cannot enter the store, beside it.
func workBeside(dir string, cfg agent.Config) string {
	if cfg.RunAs == "" {
		return dir
	}
	return workdir.Beside(dir)
}
