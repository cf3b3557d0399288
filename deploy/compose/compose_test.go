// Package compose holds docker-compose.yml against the Compose specification.
// No container is started: that takes an engine.
package compose

import (
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

func load(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../../docker-compose.yml"}, cli.WithName("maestro"))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context()) // validates against the schema
	require.NoError(t, err)
	return project
}

// TestDependenciesCanBeMet looks for a service that waits for something that
// never comes: an unknown service, or the health of one without a health check.
func TestDependenciesCanBeMet(t *testing.T) {
	t.Parallel()
	project := load(t)
	for name, service := range project.Services {
		for on, dependency := range service.DependsOn {
			target, ok := project.Services[on]
			require.True(t, ok, "%s waits for %s, which is not there", name, on)
			if dependency.Condition == types.ServiceConditionHealthy {
				require.NotNil(t, target.HealthCheck, "%s waits for the health of %s, which has no check", name, on)
			}
		}
	}
}

func TestPortsAreBoundToThisHost(t *testing.T) {
	t.Parallel()
	for name, service := range load(t).Services {
		for _, port := range service.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, name)
		}
	}
}

func TestImagesArePinned(t *testing.T) {
	t.Parallel()
	for name, service := range load(t).Services {
		if service.Build == nil {
			require.Contains(t, service.Image, ":", name)
			require.False(t, strings.HasSuffix(service.Image, ":latest"), name)
		}
	}
}
