package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/sandbox/egress"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// Options are the dependencies of a [Set].
type Options struct {
	// Getenv returns a variable of the worker's environment. Required.
	Getenv func(name string) string
	// Executable is a program whose main calls [room.Shim] first; empty: this process's own program,
	// even if its file was replaced since the start.
	Executable string
	// CacheRoot is the directory of the worker file's caches; it is created if it does not exist.
	// Required if there are caches.
	CacheRoot string
	// Now returns the current time. Required.
	Now func() time.Time
	// WorkRoot is the directory below which agents work; empty: trees are not layered.
	WorkRoot string
	// Hidden are directories that no room shows, such as the store.
	Hidden []string
	// Worker: this process is a worker. It moves to a cgroup below its own if that is delegated.
	Worker bool
	// Egress are the options of the proxies of rooms. Now is filled in.
	Egress egress.Options
	// Gateway is the gateway to the agents' providers; nil: the set creates its own.
	Gateway *Gateway
	// UsageDiffers is called after an attempt whose program has counted other tokens than its
	// provider; may be nil.
	UsageDiffers func(agent string)
	// Grace is how long a stopped process may take to end before it is killed; zero: 2 s.
	Grace time.Duration
	// Logger gets warnings; may be nil.
	Logger *slog.Logger
}

// minMaxFile is the smallest allowed bound of the size of a file that an agent or check writes,
// in bytes. The bound protects the disk from a runaway file, and is far above what builds and
// caches need. The store has its own limits for artifacts.
const minMaxFile = 16 * textfmt.Gigabyte

// attempts is how many attempts a worker runs side by side. Those of a model have processes, too: its
// checks.
func (c Config) attempts() (sum int) {
	for _, a := range c.Agents {
		if a.Kind != KindDelivery { // which starts no programs of agents
			sum += a.Concurrency
		}
	}
	return sum
}

// memoryShare is the default memory limit of an attempt: 1/memoryShare of the host's memory.
const memoryShare = 2

// Set runs a worker's agents and checks. It is safe for concurrent use.
type Set struct {
	config   Config // with defaults
	o        Options
	digests  map[string]spec.Digest
	secrets  *secrets.Set
	launcher *procgroup.Launcher
	// rooms: agents and checks run in rooms. noRooms is why rooms are not available; nil if they
	// are, or are turned off.
	rooms   bool
	noRooms error
	// noShim is why the separate program of the shim is not used; nil if it is used, or
	// Options.Executable is set.
	noShim error
	// layers: trees are overlay layers in rooms. noLayers is why layers are not available.
	layers   bool
	noLayers error
	// noCgroups is why the shim has to measure memory.
	noCgroups error
	// transport sends the calls of models.
	transport http.RoundTripper
	// bundle has the certificate authorities that a room trusts if its proxy adds credentials.
	bundle []byte
	// keys are the providers' keys when the set was made. All are masked.
	keys map[string]providerKey
}

// New prepares the config's agents and checks: it validates the config, resolves run_as and
// creates the caches' root. The error has all problems of the config. Missing programs and
// variables are only warned of, because they may appear later.
func New(cfg Config, opts Options) (*Set, error) {
	if faults := cfg.Problems(); len(faults) > 0 {
		errs := make([]error, len(faults))
		for i, f := range faults {
			errs[i] = fmt.Errorf("%s %s", f.Path, f.Message)
		}
		return nil, errors.Join(errs...)
	}
	s := &Set{
		config: cfg.WithDefaults(), o: opts, digests: map[string]spec.Digest{}, transport: newTransport(),
		keys: map[string]providerKey{},
	}
	s.o.Egress.Now, s.o.Logger = opts.Now, cmp.Or(opts.Logger, slog.New(slog.DiscardHandler))
	for name := range s.config.Agents {
		s.digests[name] = s.config.Digest(name)
	}
	account, err := room.FindAccount(cfg.RunAs, os.Geteuid())
	if err = errors.Join(err, s.makeCacheRoot()); err != nil {
		return nil, err
	}
	if err := s.readSecrets(); err != nil {
		return nil, err
	}
	if opts.Executable == "" {
		opts.Executable, s.noShim = room.Program()
	}
	s.launcher = &procgroup.Launcher{
		Executable: opts.Executable, User: account, Secrets: s.secrets,
		Grace:     opts.Grace,
		MaxOutput: int64(s.config.Limits.OutputBytes),
		MaxFile:   uint64(max(minMaxFile, s.config.Limits.FileBytes)),
		MaxMemory: int64(cmp.Or(s.config.Limits.Memory, textfmt.ByteSize(procgroup.HostMemory()/memoryShare))),
	}
	uid := os.Geteuid()
	if account != nil {
		uid = int(account.UID)
	}
	s.launcher.Threads = procgroup.ShareThreads(s.config.attempts(), uid)
	s.launcher.Cgroups, s.noCgroups = procgroup.FindCgroups(opts.Worker)
	if err := s.isolate(); err != nil {
		return nil, err
	}
	if err := s.withhold(); err != nil {
		return nil, err
	}
	s.warn(s.o.Logger)
	for _, b := range s.limits() {
		s.o.Logger.Info("limit of each attempt", "of", b.Of, "most", b.Most, "by", b.By)
	}
	if s.o.Gateway == nil {
		s.o.Gateway = NewGateway(s.o.Now, s.o.Logger)
		s.UseProviders()
	}
	return s, nil
}

// readSecrets reads all values that have to be masked.
func (s *Set) readSecrets() error {
	var known []secrets.Secret
	for _, name := range s.config.secretNames() {
		value := s.o.Getenv(name)
		known = append(known, secrets.Secret{Name: name, Value: value}, secrets.Secret{Name: name, Value: strings.TrimSpace(value)})
	}
	for name, p := range s.config.Providers {
		key, err := s.config.key(p, s.o.Getenv)
		s.keys[name] = providerKey{key, err}
		known = append(known, secrets.Secret{Name: "the key of provider " + name, Value: key})
	}
	for name := range s.config.Agents {
		if d, ok := s.Delivery(name); ok {
			known = append(known, secrets.Secret{Name: "the credentials of agent " + name, Value: d.Token + d.Key})
		}
	}
	added, err := s.readCredentials()
	if err != nil {
		return err
	}
	s.secrets = secrets.New(append(known, added...))
	return nil
}

// roomUser is the user of rooms if the worker runs as root and has no run_as: an id that no
// account has by convention.
var roomUser = room.Account{Name: "64100", UID: 64100, GID: 64100}

// isolate checks whether rooms are available.
func (s *Set) isolate() error {
	if s.config.Isolation == IsolationNone {
		return nil
	}
	if s.launcher.User == nil && os.Geteuid() == 0 {
		s.launcher.User = &roomUser
	}
	s.noRooms = s.launcher.TryRoom(nil)
	if s.rooms = s.noRooms == nil; s.rooms {
		if s.o.WorkRoot != "" {
			s.noLayers = s.tryLayers()
			s.layers = s.noLayers == nil
		}
		return nil
	}
	if s.config.Isolation == IsolationRequired {
		return fmt.Errorf("isolation: required, but this host permits no rooms: %w", s.noRooms)
	}
	if !procgroup.Forbidden(s.noRooms) { // agents must not lose their rooms because the host was busy
		return fmt.Errorf("find out whether this host permits rooms: %w; start the worker again, or write `isolation: none`", s.noRooms)
	}
	if s.launcher.User == &roomUser {
		s.launcher.User = nil
	}
	return nil
}

const (
	// tryPrefix begins the names of the directories of tryLayers.
	tryPrefix = ".try-"
	// tryAge is the age from which such a directory is not in use any more.
	tryAge = time.Hour
)

// tryLayers creates a room with an overlay below WorkRoot, because not every file system supports
// overlays.
func (s *Set) tryLayers() error {
	if err := os.MkdirAll(s.o.WorkRoot, 0o711); err != nil {
		return err
	}
	bounded.RemoveOld(s.o.WorkRoot, tryPrefix, s.o.Now().Add(-tryAge))
	dir, err := os.MkdirTemp(s.o.WorkRoot, tryPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // leftovers are harmless
	o := &room.Overlay{
		Target: room.Workspace, Lower: []string{filepath.Join(dir, "lower")}, Upper: filepath.Join(dir, "upper"),
		Work: filepath.Join(dir, "work"),
	}
	for _, path := range []string{o.Lower[0], o.Upper, o.Work} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
	}
	if err := s.launcher.User.Chown(dir); err != nil {
		return err
	}
	if err := s.launcher.TryRoom(o); err != nil {
		return fmt.Errorf("an overlay in %s: %w", s.o.WorkRoot, err)
	}
	return nil
}

// HasLayers reports whether rooms can show trees as layers.
func (s *Set) HasLayers() bool { return s.layers }

// User returns the user that agents run as; nil: the worker's user.
func (s *Set) User() *room.Account { return s.launcher.User }

// Isolation describes how agents and checks are separated from the host.
func (s *Set) Isolation() spec.Isolation {
	i := spec.Isolation{Rooms: s.rooms, User: "the worker's user"}
	if version := room.Landlock(); !s.rooms && version >= room.FloorVersion {
		i.Landlock = version
	}
	if u := s.launcher.User; u != nil {
		i.User = "user " + u.Name
	}
	if s.noRooms != nil {
		i.WithoutRooms = s.noRooms.Error()
	}
	if s.noLayers != nil {
		i.WithoutLayers = s.noLayers.Error()
	}
	if s.noShim != nil {
		i.WithoutShim = s.noShim.Error()
	}
	i.Limits = s.limits()
	return i
}

// RemedyOfFewThreads is what to do about what [Set.FewThreads] says.
const RemedyOfFewThreads = "raise the limit, or lower the concurrency of the agents"

// FewThreads says why programs may fail, because each attempt may have few threads; empty: it may have enough.
func (s *Set) FewThreads() string {
	if t := s.launcher.Threads; t.Few() {
		return fmt.Sprintf("programs may fail, because each attempt may have only %d threads: %s", t.Each, t)
	}
	return ""
}

// limits lists the limits of each attempt, and what enforces them.
func (s *Set) limits() []spec.Limit {
	disk := spec.Limit{
		Of: "disk", Most: fmt.Sprintf("%s, %d files", s.config.Limits.DiskBytes, s.config.Limits.DiskFiles),
		By: "measured by the worker",
	}
	own := []spec.Limit{disk}
	if len(s.config.Caches) > 0 {
		own = append(own, spec.Limit{Of: "caches", Most: fmt.Sprintf("%s, %d files each", s.config.Limits.CacheBytes,
			s.config.Limits.DiskFiles), By: "trimmed by the worker"})
	}
	return slices.Concat(s.launcher.Bounds(s.rooms, s.noCgroups), own, s.floorLimits())
}

func (s *Set) makeCacheRoot() error {
	if len(s.config.Caches) == 0 {
		return nil
	}
	if !filepath.IsAbs(s.o.CacheRoot) {
		return fmt.Errorf("the root of the caches is %q; it must be an absolute path", s.o.CacheRoot)
	}
	mode := os.FileMode(0o700)
	if s.config.RunAs != "" {
		mode = 0o711 // run_as needs access to the directories in it
	}
	if err := os.MkdirAll(s.o.CacheRoot, mode); err != nil {
		return fmt.Errorf("make the root of the caches: %w", err)
	}
	return nil
}

func (s *Set) relative(path string) string { return s.config.relative(path) }

// relative resolves a path of the worker file.
func (c Config) relative(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	dir := c.Dir
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Join(dir, path)
}

// resolve makes a command agent's program absolute if it is relative to the worker file. A name
// without a slash is not changed.
func (s *Set) resolve(argv []string) []string {
	argv = slices.Clone(argv)
	if strings.Contains(argv[0], "/") {
		argv[0] = s.relative(argv[0])
	}
	return argv
}

// warn logs what will probably not work.
func (s *Set) warn(log *slog.Logger) {
	for _, name := range s.secrets.Ordinary() {
		log.Warn("a secret is an ordinary word or number: it is masked, and files that contain it are refused, wherever it stands",
			"secret", name,
			"remedy", "use a longer value, or give it to agents in a variable whose name does not end in KEY, TOKEN, SECRET or PASSWORD")
	}
	for _, lack := range s.config.Shortages(s.o.Getenv) {
		log.Warn(lack.Message, "of", lack.Of, "remedy", lack.Remedy)
	}
	i := s.Isolation()
	if i.WithoutLayers != "" {
		log.Warn("trees are copied for each attempt, because they cannot be layered", "why", i.WithoutLayers)
	}
	if i.WithoutShim != "" {
		log.Warn("processes start slowly, because the worker's own program supervises each", "why", i.WithoutShim)
	}
	if few := s.FewThreads(); few != "" {
		log.Warn(few, "remedy", RemedyOfFewThreads)
	}
	if i.WithoutRooms != "" {
		log.Warn("agents and checks work without rooms", "why", i.WithoutRooms)
		if restricted := s.config.Restricted(); len(restricted) > 0 {
			log.Error("what has a restricted network is not started without rooms", "which", strings.Join(restricted, ", "))
		}
	}
	log.Info("isolation of agents and checks", "mode", i, "user", i.User)
	if !s.rooms && s.config.RunAs == "" && os.Geteuid() == 0 {
		log.Warn("agents and checks run as root; set run_as in the worker file, or start the worker as another user")
	}
}

// Run does one attempt and returns when the agent and all its descendants have ended. If the
// attempt fails, the error is a *failures.Failure, and the outcome has its usage and log. If the
// context ends, Run stops the agent and returns the context's cause.
func (s *Set) Run(ctx context.Context, job session.Job) (session.Outcome, error) {
	d, ok := s.config.Agents[job.Agent]
	if !ok {
		return session.Outcome{}, failures.Failf(failures.ResourceError, "agent %q not found in this worker's file",
			textfmt.Shorten(job.Agent, 80))
	}
	if job.Progress == nil {
		job.Progress = func(string) {}
	}
	switch {
	case d.Kind == KindDelivery:
		return session.Outcome{}, failures.Failf(failures.InvalidRequest, "agent %s delivers pull requests; it does no work", job.Agent)
	case d.Kind == KindModel:
		return s.runModel(ctx, d, job)
	case len(d.Gateway) > 0:
		return s.runWithGateway(ctx, d, job)
	}
	return s.runPaidAsWhole(ctx, d, job)
}

// Breaker returns the settings of an agent's circuit breaker, with defaults.
func (s *Set) Breaker(agent string) spec.Breaker { return s.config.BreakerOf(agent) }

// Mask replaces every secret that the worker knows.
func (s *Set) Mask(text string) string { return s.secrets.Mask(text) }

// Secrets are those that no artifact may contain.
func (s *Set) Secrets() *secrets.Set { return s.secrets }

// Limits returns the worker file's limits, defaults filled in.
func (s *Set) Limits() Limits { return s.config.Limits }

// OfferedAgents returns what the worker publishes about its agents.
func (s *Set) OfferedAgents() map[string]spec.OfferedAgent {
	offered := make(map[string]spec.OfferedAgent, len(s.config.Agents))
	for name := range s.config.Agents {
		offered[name] = s.Offered(name)
	}
	return offered
}

// Offered describes one agent; it is zero if the worker does not have the agent.
func (s *Set) Offered(name string) spec.OfferedAgent {
	d, ok := s.config.Agents[name]
	if !ok {
		return spec.OfferedAgent{}
	}
	offered := spec.OfferedAgent{
		Kind: d.Kind, Model: d.Model, Concurrency: d.Concurrency, Digest: s.digests[name], Breaker: s.Breaker(name).Name,
		Fallback: d.Fallback, Unpriced: s.config.Unpriced(name), Gateway: d.Gateway,
	}
	if s.rooms && d.Kind == KindCommand {
		if offered.Network = d.Network; len(offered.Network) == 0 {
			offered.Network = []string{string(room.NetworkHost)}
		}
	}
	switch {
	case d.Kind == KindModel:
		offered.Conversation = spec.InCalls
	case d.Preset != "":
		offered.Conversation = spec.InDirectory
	}
	return offered
}

// OfferedChecks returns what the worker publishes about its checks.
func (s *Set) OfferedChecks() map[string]spec.Digest {
	offered := make(map[string]spec.Digest, len(s.config.Checks))
	for name, d := range s.config.Checks {
		offered[name] = d.Digest()
	}
	return offered
}

// Sweep ends processes of earlier attempts in a directory.
func (s *Set) Sweep(dir session.WorkDir) error { return s.launcher.Sweep(dir) }

// Removed returns the size of removed files that processes of an assignment's directories still
// have open, in bytes. hidden: there may be more.
func (s *Set) Removed(dir session.WorkDir) (bytes int64, hidden bool) { return s.launcher.Removed(dir) }

// EndStopped ends stopped shims of workers that have ended.
func (s *Set) EndStopped() { s.launcher.EndStoppedShims() }
