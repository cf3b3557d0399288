package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/agent/preset"
	"github.com/maestro-hive/maestro/internal/models/gateway"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
	"github.com/maestro-hive/maestro/internal/platform/diskspace"
	"github.com/maestro-hive/maestro/internal/sandbox/procgroup"
	"github.com/maestro-hive/maestro/internal/sandbox/room"
)

// Gateway is a worker's gateway to providers. It is kept when the worker file is reloaded and a
// new [Set] is made, with its counts for the limits of providers.
type Gateway = gateway.Gateway

// NewGateway returns a gateway without providers; see [Set.UseProviders].
func NewGateway(now func() time.Time, log *slog.Logger) *Gateway {
	return gateway.New(gateway.Options{Transport: newTransport(), Now: now, Log: log})
}

// listen returns an address on the host of the gateway for one attempt, until its access is closed.
func (via *gatewayAccess) listen() (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the gateway: %w", err)
	}
	go via.Serve(l) //nolint:errcheck // it ends with the access
	return "http://" + l.Addr().String(), nil
}

// UseProviders makes the gateway serve the set's providers.
func (s *Set) UseProviders() {
	var all []gateway.Provider
	for name, p := range s.config.Providers {
		key := s.keys[name]
		all = append(all, gateway.Provider{
			Name: name, API: p.Format, BaseURL: p.BaseURL, Limits: gateway.Limits(p.Limits),
			Key: key.value, KeyError: key.err, Models: p.Models,
		})
	}
	s.o.Gateway.Use(all)
}

// withhold hides the keys of providers and of deliveries from rooms, and the former from agents with a gateway.
func (s *Set) withhold() (err error) {
	for agent, d := range s.config.Agents {
		for _, name := range d.Env {
			for provider, key := range s.keys {
				if len(d.Gateway) > 0 && key.value != "" && strings.Contains(s.o.Getenv(name), key.value) {
					err = errors.Join(err, fmt.Errorf("agent %s: variable %s, which env names, has the key of provider %s; leave it out", agent,
						name, provider))
				}
			}
		}
	}
	files := map[string]string{}
	for name, p := range s.config.Providers {
		files["provider "+name] = p.KeyFile
	}
	for name, d := range s.config.Agents {
		_, files["agent "+name] = d.credential()
	}
	for of, keyFile := range files {
		if keyFile == "" || !s.rooms {
			continue
		}
		for _, file := range []string{s.relative(keyFile), room.RealPath(s.relative(keyFile))} {
			dir := filepath.Dir(file)
			if s.shows(dir) {
				err = errors.Join(err, fmt.Errorf("%s: key_file is in %s, which rooms show; move it to a directory of its own", of, dir))
			}
			s.o.Hidden = append(slices.Clone(s.o.Hidden), dir)
		}
	}
	return err
}

// shows reports whether rooms show a directory of the host under its own path.
func (s *Set) shows(dir string) bool {
	argvs := [][]string{}
	for _, d := range s.config.Agents {
		argvs = append(argvs, d.Argv)
	}
	for _, d := range s.config.Checks {
		argvs = append(argvs, d.Argv)
	}
	return room.Shows(dir) && filepath.Dir(dir) == "/" ||
		slices.ContainsFunc(s.config.Mounts, func(m Mount) bool { return m.Path == dir }) ||
		slices.ContainsFunc(argvs, func(argv []string) bool {
			return len(argv) > 0 && slices.Contains(s.programDirs(s.resolve(argv)),
				dir)
		})
}

// gatewayPort is the port of the gateway in a room with a network of its own.
const gatewayPort = 3129

// gatewayAccess is an attempt's access to the gateway.
type gatewayAccess struct {
	*gateway.Access
	// secrets are the set's secrets and the token.
	secrets *secrets.Set
	// log is the log of the running process; nil: none.
	log atomic.Pointer[procgroup.Capture]
	// failed gets the failure that ends the attempt. Then halt stops its program.
	failed, halt chan *failures.Failure
}

// openPassage gives an attempt access to the gateway until it is closed.
func (s *Set) openPassage(ctx context.Context, d Definition, job session.Job) *gatewayAccess {
	via := &gatewayAccess{failed: make(chan *failures.Failure, 1), halt: make(chan *failures.Failure, 1)}
	mask := func(text string) string { return via.secrets.Mask(text) }
	via.Access = s.o.Gateway.Open(ctx, gateway.Attempt{
		Agent: job.Agent, Calls: job.Calls, Breaker: job.Breaker, Waits: job.Waits, Providers: d.Gateway, Offline: d.offline(),
		Mask: mask, Log: via, Continues: job.Continues,
		Failed: func(f *failures.Failure) {
			via.failed <- f
			select {
			case via.halt <- &failures.Failure{Category: f.Category, Message: "was stopped: " + f.Message}:
			default: // it is being ended already
			}
		},
	})
	via.secrets = secrets.New(append(s.secrets.Secrets(), secrets.Secret{Name: "the gateway's token", Value: via.Token}))
	return via
}

// Write adds an item of the transcript to the log.
func (via *gatewayAccess) Write(item []byte) (int, error) {
	if log := via.log.Load(); log != nil {
		log.Print(strings.TrimSuffix(string(item), "\n"))
	}
	return len(item), nil
}

// connect makes the gateway reachable for the programs of a place.
func (s *Set) connect(at *place, d Definition, via *gatewayAccess) (err error) {
	address := fmt.Sprintf("http://127.0.0.1:%d", gatewayPort)
	if at.room != nil && at.room.Network == room.NetworkNone {
		at.services = append(at.services, procgroup.Service{Port: gatewayPort, Serve: func(l net.Listener, log *procgroup.Capture) {
			if err := via.Serve(l); err != nil {
				log.Note("the gateway serves no longer: %v", err)
			}
		}})
	} else if address, err = via.listen(); err != nil {
		return err
	}
	variables := map[string]string{}
	for _, name := range d.Gateway {
		its := s.config.Providers[name].Format.Programs()
		variables[its.Key] = via.Token
		if variables[its.BaseURL], err = via.URL(address, name); err != nil {
			return err
		}
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		others := ""
		if slices.Contains(d.Env, name) {
			others = s.o.Getenv(name)
		}
		variables[name] = strings.Trim(cmp.Or(at.variables[name], others)+",127.0.0.1", ",")
	}
	if at.variables == nil {
		at.variables = map[string]string{}
	}
	maps.Copy(at.variables, variables)
	return nil
}

// writeSettings writes the file below HOME that a preset's program needs to use the gateway,
// unless it exists.
func writeSettings(home string, program *preset.Program) error {
	name, text := program.SettingsFile, program.Settings
	if name == "" {
		return nil
	}
	root, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // a directory
	f, err := createBelow(root, name)
	if err != nil && !errors.Is(err, os.ErrExist) && !diskspace.IsFull(err) {
		first, _, _ := strings.Cut(name, "/")
		if err = bounded.RemoveAll(root, first); err == nil { // an agent has put something else there
			f, err = createBelow(root, name)
		}
	}
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// createBelow creates a file and the directories above it. The error is [os.ErrExist] only if the
// file exists.
func createBelow(root *os.Root, name string) (*os.File, error) {
	err := root.MkdirAll(filepath.Dir(name), 0o755)
	if errors.Is(err, os.ErrExist) { // a link that leads nowhere
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, err
	}
	return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// runWithGateway runs an attempt of an agent with a gateway, which books its calls one by one. If the
// gateway has ended the attempt with a failure, this is the attempt's failure, however the
// program ends.
func (s *Set) runWithGateway(ctx context.Context, d Definition, job session.Job) (session.Outcome, error) {
	via := s.openPassage(ctx, d, job)
	defer via.Close()
	masking := *s
	masking.secrets = via.secrets
	s = &masking
	var call *programCall
	if d.Preset != "" {
		call = s.beginCall(d, job)
	}
	got, err := s.attempt(ctx, d, job, call, via)
	via.Close()
	said := got.out.Usage
	booked, answered, exact := via.Bill()
	got.out.Usage = booked
	select {
	case f := <-via.failed:
		if ctx.Err() == nil {
			err = s.gatewayFailure(f, err)
		}
	default:
		if exact && err == nil && said != (cost.Usage{}) {
			s.compare(job.Agent, said, answered)
		}
	}
	return got.out, err
}

// gatewayFailure returns the failure with which the gateway has ended an attempt. err is how the
// program ended.
func (s *Set) gatewayFailure(f *failures.Failure, err error) *failures.Failure {
	ended := *f
	ended.Message = s.message("%s", f.Message)
	var program *failures.Failure
	if errors.As(err, &program) {
		ended.Output = program.Output
	}
	return &ended
}

// compare reports a difference between a program's own count of its tokens and the provider's.
func (s *Set) compare(agent string, said, counted cost.Usage) {
	said.CostUSD, counted.CostUSD = 0, 0
	if said == counted {
		return
	}
	s.o.Logger.Warn("an agent program counts its tokens otherwise than its provider; the provider's count is booked",
		"agent", agent, "program", fmt.Sprintf("%+v", said), "provider", fmt.Sprintf("%+v", counted))
	if s.o.UsageDiffers != nil {
		s.o.UsageDiffers(agent)
	}
}
