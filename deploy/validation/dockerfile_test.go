package validation

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

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
	for _, c := range []struct {
		change func(string) string
		finds  string
	}{
		{func(s string) string { return s }, ""},
		{func(s string) string {
			return strings.ReplaceAll(s, "ENTRYPOINT [\"maestro-worker\"]", "ENTRYPOINT maestro-worker")
		}, "JSONArgsRecommended"},
		{func(s string) string { return s + "COPY --from=biuld /out /out\nRUNN true\n" }, "unknown instruction"},
	} {
		text, err := os.ReadFile(dockerfilePath)
		require.NoError(t, err)
		data := []byte(c.change(string(text)))
		source := llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", data)
		source.Definition = &llb.Definition{}
		results, err := dockerfile2llb.DockerfileLint(t.Context(), data, dockerfile2llb.ConvertOpt{
			Config:         dockerui.Config{},
			SourceMap:      source,
			TargetPlatform: &ocispecs.Platform{OS: "linux", Architecture: "amd64"},
			MetaResolver:   bareImages{},
		})
		require.NoError(t, err)
		var found []string
		for _, w := range results.Warnings {
			found = append(found, w.RuleName+": "+w.Detail)
		}
		if results.Error != nil {
			found = append(found, results.Error.Message)
		}
		if c.finds == "" {
			require.Empty(t, found)
		} else {
			require.Contains(t, strings.Join(found, "\n"), c.finds)
		}
	}
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
