// Package deploy_test holds what deploys Maestro against the programs that it
// deploys, and its files against each other.
package deploy_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/models/config"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
	"github.com/maestro-hive/maestro/worker/service"
)

// declaredService is how a file runs a program of Maestro's.
type declaredService struct {
	// argv has the program's name first.
	argv []string
	env  map[string]string
	// stop is how long it has to end; zero: the file does not say.
	stop time.Duration
}

// services are all that the files run, by file and name.
func services(t *testing.T) map[string]declaredService {
	t.Helper()
	found := map[string]declaredService{"Dockerfile": imageOf(t), "systemd": unit(t).service(t), "Kubernetes": pod(t)}
	image := found["Dockerfile"]
	found["Dockerfile, health"] = declaredService{argv: []string{"maestro-worker", "health"}, env: image.env}
	for name, s := range composed(t) {
		if s.Entrypoint == nil && s.Image != "maestro-worker-go" {
			continue
		}
		argv := slices.Concat(s.Entrypoint, s.Command)
		if s.Entrypoint == nil {
			argv = slices.Concat(image.argv, s.Command)
			found["compose, health of "+name] = declaredService{argv: s.Healthcheck.Test[1:], env: s.Environment}
		}
		if !strings.HasPrefix(argv[0], "maestro") {
			continue
		}
		stop, err := time.ParseDuration(s.Stop)
		require.True(t, err == nil || s.Stop == "", "%s: %v", name, err)
		found["compose, "+name] = declaredService{argv, s.Environment, stop}
	}
	require.Len(t, found, 10)
	return found
}

// composeService is a service of docker-compose.yml.
type composeService struct {
	Image               string
	Entrypoint, Command []string
	Environment         map[string]string
	Healthcheck         struct{ Test []string }
	Stop                string `yaml:"stop_grace_period"`
}

func composed(t *testing.T) map[string]composeService {
	t.Helper()
	var file struct{ Services map[string]composeService }
	decode(t, "../docker-compose.yml", &file)
	require.NotEmpty(t, file.Services)
	return file.Services
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(read(t, path)), into), path)
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

var (
	imageVariable   = regexp.MustCompile(`(?m)^(?:ENV |    )(MAESTRO_[A-Z_]+)=(\S+)`)
	imageEntrypoint = regexp.MustCompile(`(?m)^ENTRYPOINT \["([a-z-]+)"\]$`)
)

func imageOf(t *testing.T) declaredService {
	t.Helper()
	text := read(t, "../Dockerfile")
	s := declaredService{argv: imageEntrypoint.FindStringSubmatch(text)[1:], env: map[string]string{}}
	for _, m := range imageVariable.FindAllStringSubmatch(text, -1) {
		s.env[m[1]] = m[2]
	}
	require.Len(t, s.env, 4)
	return s
}

// deployment is what is looked at of a Deployment.
type deployment struct {
	Kind string
	Spec struct {
		Template struct {
			Metadata struct{ Annotations map[string]string }
			Spec     struct {
				Stop       int `yaml:"terminationGracePeriodSeconds"`
				Containers []struct {
					Args  []string
					Env   []struct{ Name, Value string }
					Ports []struct {
						Name string
						Port int `yaml:"containerPort"`
					}
				}
			}
		}
	}
}

func deployed(t *testing.T) deployment {
	t.Helper()
	documents := yaml.NewDecoder(strings.NewReader(read(t, "kubernetes/worker.yaml")))
	for {
		var d deployment
		require.NoError(t, documents.Decode(&d), "there is no Deployment")
		if d.Kind == "Deployment" {
			return d
		}
	}
}

func pod(t *testing.T) declaredService {
	t.Helper()
	spec := deployed(t).Spec.Template.Spec
	container := spec.Containers[0]
	s := declaredService{slices.Concat(imageOf(t).argv, container.Args), map[string]string{}, time.Duration(spec.Stop) * time.Second}
	for _, e := range container.Env {
		s.env[e.Name] = e.Value
	}
	return s
}

// settings are those of a unit: every value of a key, in order.
type settings map[string][]string

func unit(t *testing.T) settings {
	t.Helper()
	found := settings{}
	for line := range strings.Lines(read(t, "systemd/maestro-worker.service")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "[") {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		require.True(t, ok, line)
		found[key] = append(found[key], value)
	}
	return found
}

func (u settings) service(t *testing.T) declaredService {
	t.Helper()
	s := declaredService{argv: strings.Fields(u["ExecStart"][0]), env: map[string]string{}}
	s.argv[0] = filepath.Base(s.argv[0])
	for _, e := range u["Environment"] {
		name, value, ok := strings.Cut(e, "=")
		require.True(t, ok, e)
		s.env[name] = value
	}
	for line := range strings.Lines(read(t, "systemd/worker.env.example")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && regexp.MustCompile(`^[A-Z_]+$`).MatchString(name) {
			s.env[name] = value
		}
	}
	stop, err := time.ParseDuration(u["TimeoutStopSec"][0] + "s")
	require.NoError(t, err)
	s.stop = stop
	return s
}

func TestEveryCommandLineIsUnderstood(t *testing.T) {
	t.Parallel()
	understood := func(argv ...string) bool {
		// Flags are read, and their values, before help is given: help of the
		// subcommand that comes before them.
		help, err := exec.CommandContext(t.Context(), temporaltest.Binary(t, argv[0]),
			append(slices.Clone(argv[1:]), "--help")...).Output()
		words := slices.IndexFunc(append(argv, "-"), func(arg string) bool { return strings.HasPrefix(arg, "-") })
		return err == nil && strings.Contains(string(help), "Usage:\n  "+strings.Join(argv[:words], " ")+" [")
	}
	require.False(t, understood("maestro-worker", "--drian", "20s"))
	require.False(t, understood("maestro-worker", "--drain", "20"))
	require.False(t, understood("maestro-worker", "wealth"))
	for name, s := range services(t) {
		require.True(t, understood(s.argv...), "%s: %s", name, s.argv)
	}
}

// recorder is an environment that notes what it is asked for.
type recorder struct {
	mu    sync.Mutex
	env   map[string]string
	asked []string
}

func (r *recorder) Environ() []string { return nil }

func (r *recorder) LookupEnv(name string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, name)
	value, ok := r.env[name]
	return value, ok
}

// TestEveryVariableIsRead starts a worker that finds no Temporal, and sees what it
// reads until then.
func TestEveryVariableIsRead(t *testing.T) {
	t.Parallel()
	env := &recorder{env: map[string]string{
		"MAESTRO_AGENTS": "../examples/shortener/agents.yaml", "MAESTRO_STATE_DIR": filepath.Join(t.TempDir(), "state"),
		"TEMPORAL_ADDRESS": "127.0.0.1:1",
	}}
	cmd := service.NewCommand(service.Process{Stderr: io.Discard, Env: env, Host: "here", PID: 1, Now: time.Now})
	cmd.SetArgs([]string{"--connect-timeout", "1ms"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var unreachable *temporalutil.UnreachableError
	require.ErrorAs(t, cmd.ExecuteContext(t.Context()), &unreachable)
	for name, s := range services(t) {
		for variable := range s.env {
			require.Contains(t, env.asked, variable, "%s sets a variable that a worker does not read", name)
		}
	}
}

func TestStopsLeaveTimeToDrain(t *testing.T) {
	t.Parallel()
	const settling = 10 * time.Second // what a worker takes to hand over after --drain
	for name, s := range services(t) {
		if s.stop == 0 {
			continue
		}
		at := slices.Index(s.argv, "--drain")
		require.Positive(t, at, name)
		drain, err := time.ParseDuration(s.argv[at+1])
		require.NoError(t, err, name)
		require.GreaterOrEqual(t, s.stop, drain+settling, name)
	}
	require.Equal(t, []string{"mixed"}, unit(t)["KillMode"], "agents get no SIGTERM while the worker lets them go on")
	require.Equal(t, []string{"/bin/sh -c 'kill -HUP $MAINPID'"}, unit(t)["ExecReload"], "the worker reads its file again")
}

func TestPortsAgree(t *testing.T) {
	t.Parallel()
	const health, metrics = "8081", "9464"
	for name, s := range services(t) {
		if strings.Contains(s.argv[0], "worker") {
			require.Equal(t, health, s.env["MAESTRO_HEALTH_PORT"], name)
			require.Regexp(t, `^(0\.0\.0\.0|127\.0\.0\.1):`+metrics+"$", s.env["MAESTRO_METRICS_ADDRESS"], name)
		}
	}
	require.Contains(t, read(t, "../Dockerfile"), "\nEXPOSE "+health+" "+metrics+"\n")
	template := deployed(t).Spec.Template
	require.Equal(t, metrics, template.Metadata.Annotations["prometheus.io/port"])
	for _, p := range template.Spec.Containers[0].Ports {
		require.Equal(t, map[string]int{"health": 8081, "metrics": 9464}[p.Name], p.Port, p.Name)
	}
	for _, file := range []string{"prometheus/targets.yml", "prometheus/compose-targets.yml"} {
		var groups []struct{ Targets []string }
		decode(t, file, &groups)
		for _, target := range groups[0].Targets {
			require.Regexp(t, ":"+metrics+"$", target, file)
			if name, _, _ := strings.Cut(target, ":"); name != "127.0.0.1" {
				require.Contains(t, composed(t), name, file)
			}
		}
	}
}

// TestTemporalIsSetUpAsTheClusterIs: what run.sh sets for Temporal and its schema
// is tried out; docker-compose.yml sets nothing else.
func TestTemporalIsSetUpAsTheClusterIs(t *testing.T) {
	t.Parallel()
	script := read(t, "cluster/run.sh")
	for _, name := range []string{"temporal", "schema"} {
		env := composed(t)[name].Environment
		require.NotEmpty(t, env)
		for variable := range env {
			require.Regexp(t, `\b`+variable+`\b`, script, "%s sets %s, which nothing has tried", name, variable)
		}
	}
}

func TestTheWorkerFileOfTheManifestsLoads(t *testing.T) {
	t.Parallel()
	var manifest struct{ Data map[string]string }
	decode(t, "kubernetes/agents.yaml", &manifest)
	path := filepath.Join(t.TempDir(), "agents.yaml")
	require.NoError(t, os.WriteFile(path, []byte(manifest.Data["agents.yaml"]), 0o600))
	cfg, err := config.LoadWorker(path)
	require.NoError(t, err)
	for name, p := range cfg.Providers {
		require.True(t, bytes.Contains([]byte(read(t, "kubernetes/kustomization.yaml")), []byte(p.KeyEnv+"=")),
			"nothing says that the secret needs %s for %s", p.KeyEnv, name)
	}
}
