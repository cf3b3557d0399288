// Package validation holds what deploys Maestro in containers against the
// specifications and the linters of those who read it: docker-compose.yml, the
// Dockerfile and the manifests for Kubernetes. Nothing is started: that takes an
// engine.
package validation

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/stretchr/testify/require"
)

func load(t *testing.T, env ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../../docker-compose.yml"}, cli.WithName("maestro"), cli.WithEnv(env))
	require.NoError(t, err)
	return options.LoadProject(t.Context()) // validates against the schema
}

func project(t *testing.T) *types.Project {
	t.Helper()
	p, err := load(t, "POSTGRES_PASSWORD=correct horse")
	require.NoError(t, err)
	return p
}

// workers are the services that run a worker, by name.
func workers(t *testing.T) map[string]types.ServiceConfig {
	t.Helper()
	found := map[string]types.ServiceConfig{}
	for name, service := range project(t).Services {
		if strings.HasPrefix(name, "worker") {
			found[name] = service
		}
	}
	return found
}

// ends tells whether a service is a job.
func ends(s types.ServiceConfig) bool {
	return strings.HasPrefix(s.Restart, types.RestartPolicyOnFailure)
}

// TestDependenciesCanBeMet looks for a service that waits for something that
// never comes: an unknown service, the health of one without a health check, or
// the end of one that does not end.
func TestDependenciesCanBeMet(t *testing.T) {
	t.Parallel()
	p := project(t)
	for name, service := range p.Services {
		for on, dependency := range service.DependsOn {
			target, ok := p.Services[on]
			require.True(t, ok, "%s waits for %s, which is not there", name, on)
			switch dependency.Condition {
			case types.ServiceConditionHealthy:
				require.NotNil(t, target.HealthCheck, "%s waits for the health of %s, which has no check", name, on)
			case types.ServiceConditionCompletedSuccessfully:
				require.True(t, ends(target), "%s waits for the end of %s, which does not end", name, on)
			default:
				require.Fail(t, "whether it has been started says nothing", "%s on %s", name, on)
			}
		}
	}
}

// TestMountsAreLookedAtFirst: `mounts` sees each file of the checkout that a service does, and no service starts before it.
func TestMountsAreLookedAtFirst(t *testing.T) {
	t.Parallel()
	p := project(t)
	seen := map[string]bool{}
	for _, v := range p.Services["mounts"].Volumes {
		seen[v.Source] = true
	}
	for name, service := range p.Services {
		for _, v := range service.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			require.True(t, seen[v.Source] || seen[filepath.Dir(v.Source)], "%s mounts %s", name, v.Source)
		}
		for on := name; on != "mounts"; {
			before := p.Services[on].DependsOn
			require.NotEmpty(t, before, "%s does not wait for mounts", name)
			on = slices.Sorted(maps.Keys(before))[0]
		}
	}
}

func TestImagesArePinned(t *testing.T) {
	t.Parallel()
	built := map[string]string{}
	for name, service := range project(t).Services {
		if service.Build != nil {
			require.Empty(t, built[service.Image], "%s builds %s, too", name, service.Image)
			built[service.Image] = name
		}
	}
	for name, service := range project(t).Services {
		if builder := built[service.Image]; builder == "" {
			require.Regexp(t, `:v?\d+`, service.Image, name)
		} else if builder != name {
			require.Contains(t, service.DependsOn, builder, "%s starts by an image that nobody need have built", name)
		}
	}
}

func TestServicesAreConfinedAndStayUp(t *testing.T) {
	t.Parallel()
	for name, service := range project(t).Services {
		for _, port := range service.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, name)
		}
		if !ends(service) {
			require.Equal(t, types.RestartPolicyUnlessStopped, service.Restart, name)
			require.NotNil(t, service.HealthCheck, "%s has no health check", name)
			require.Equal(t, "CMD", service.HealthCheck.Test[0], name)
		}
		require.Contains(t, service.SecurityOpt, "no-new-privileges:true", name)
		require.Equal(t, []string{"ALL"}, service.CapDrop, name)
		require.False(t, service.Privileged, name)
		if name != "postgresql" { // its image changes the user by itself
			require.Empty(t, service.CapAdd, name)
		}
	}
	for name, worker := range workers(t) {
		require.True(t, worker.ReadOnly, name)
		require.Equal(t, "10001:10001", worker.User, name)
		require.Len(t, worker.Tmpfs, 1, name)
		require.NotZero(t, worker.PidsLimit, name)
		require.Subset(t, worker.SecurityOpt, []string{"seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined"},
			"rooms need it")
	}
}

// TestTwoWorkersAreTwoHosts: they share a database and a volume with the content, and nothing else.
func TestTwoWorkersAreTwoHosts(t *testing.T) {
	t.Parallel()
	all := workers(t)
	require.Len(t, all, 2)
	var hosts, own, shared []string
	for name, worker := range all {
		hosts = append(hosts, worker.Hostname)
		for _, v := range worker.Volumes {
			switch v.Target {
			case *worker.Environment["MAESTRO_STATE_DIR"]:
				own = append(own, v.Source)
			case strings.TrimPrefix(*worker.Environment["MAESTRO_CONTENT"], "file://"):
				shared = append(shared, v.Source)
			default:
				continue
			}
			require.Equal(t, types.VolumeTypeVolume, v.Type, name)
			require.False(t, v.ReadOnly, name)
			require.Contains(t, project(t).Volumes, v.Source)
		}
	}
	slices.Sort(hosts)
	require.Equal(t, []string{"worker-1", "worker-2"}, hosts, "a worker takes up its own work by the name of its host")
	require.Len(t, own, 2)
	require.NotEqual(t, own[0], own[1])
	require.Len(t, shared, 2)
	require.Equal(t, shared[0], shared[1])
	require.Equal(t, all["worker-1"].Environment["MAESTRO_STORE"], all["worker-2"].Environment["MAESTRO_STORE"])
}

func TestSecretsComeFromTheEnvironment(t *testing.T) {
	t.Parallel()
	_, err := load(t)
	require.ErrorContains(t, err, "put POSTGRES_PASSWORD=... into .env")
	for name, variable := range map[string]string{
		"postgresql": "POSTGRES_PASSWORD", "schema": "SQL_PASSWORD",
		"temporal": "POSTGRES_PWD",
	} {
		require.Equal(t, "correct horse", *project(t).Services[name].Environment[variable])
	}
	for name, worker := range workers(t) {
		require.Len(t, worker.EnvFiles, 1, name)
		require.False(t, bool(worker.EnvFiles[0].Required), "%s starts without keys", name)
	}
}

const dockerfilePath = "../../Dockerfile"

// bareImages stands for a registry: every base image is an empty one.
type bareImages struct{}

func (bareImages) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config := []byte(`{"os":"linux","architecture":"amd64","config":{"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}}`)
	return ref, digest.FromBytes(config), config, nil
}

// TestBuildKitFindsNoFault runs what `docker build --check` runs, on all stages.
func TestBuildKitFindsNoFault(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(dockerfilePath)
	require.NoError(t, err)
	source := llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", data)
	source.Definition = &llb.Definition{}
	results, err := dockerfile2llb.DockerfileLint(t.Context(), data, dockerfile2llb.ConvertOpt{
		Config:         dockerui.Config{},
		SourceMap:      source,
		TargetPlatform: &ocispecs.Platform{OS: "linux", Architecture: "amd64"},
		MetaResolver:   bareImages{},
	})
	require.NoError(t, err)
	require.Empty(t, results.Warnings)
	require.Nil(t, results.Error)
}

// stages are the Dockerfile's stages by name, and the last one's name.
func stages(t *testing.T) (byName map[string]instructions.Stage, last string) {
	t.Helper()
	data, err := os.ReadFile(dockerfilePath)
	require.NoError(t, err)
	ast, err := parser.Parse(bytes.NewReader(data))
	require.NoError(t, err)
	all, _, err := instructions.Parse(ast.AST, nil)
	require.NoError(t, err)
	byName = map[string]instructions.Stage{}
	for _, s := range all {
		byName[s.Name] = s
		last = s.Name
	}
	return byName, last
}

func TestImagesAreSmallConfinedAndPinned(t *testing.T) {
	t.Parallel()
	all, last := stages(t)
	require.Equal(t, "worker", last, "without a target the small image is built")
	for name, s := range all {
		if _, ours := all[s.BaseName]; !ours {
			require.Regexp(t, `^\S+:\S*\d|:bookworm-slim$`, s.BaseName, "%s is not based on a release", name)
		}
	}
	for _, name := range []string{"worker", "worker-go"} {
		require.Equal(t, "base", all[name].BaseName)
	}
	var user *instructions.UserCommand
	var check *instructions.HealthCheckCommand
	for _, command := range all["base"].Commands {
		switch c := command.(type) {
		case *instructions.UserCommand:
			user = c
		case *instructions.HealthCheckCommand:
			check = c
		case *instructions.VolumeCommand:
			require.Fail(t, "a volume of the image hides what is mounted above it")
		}
	}
	require.Equal(t, "10001:10001", user.User)
	require.Equal(t, []string{"CMD", "maestro-worker", "health"}, check.Health.Test)
}

// TestTheContextLeavesOutWhatGitIgnores: a tracked file that is left out would
// have the toolchain mark the build as changed.
func TestTheContextLeavesOutWhatGitIgnores(t *testing.T) {
	t.Parallel()
	patterns := func(path string) []string {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		var found []string
		for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			if !strings.HasPrefix(line, "#") {
				found = append(found, strings.TrimPrefix(line, "**/"))
			}
		}
		return found
	}
	require.ElementsMatch(t, patterns("../../.gitignore"), patterns("../../.dockerignore"))
}
