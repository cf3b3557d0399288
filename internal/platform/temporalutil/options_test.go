package temporalutil_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
)

// env is an environment of its own; it names no temporal.toml of the machine's.
type env map[string]string

func (e env) LookupEnv(key string) (string, bool) { v, ok := e[key]; return v, ok }

func (e env) Environ() []string {
	var out []string
	for k, v := range e {
		out = append(out, k+"="+v)
	}
	return out
}

const profiles = `
[profile.default]
address = "from-default:1"
namespace = "default-ns"
[profile.cloud]
address = "from-cloud:2"
namespace = "cloud-ns"
api_key = "key"
`

func TestFlagsWinOverEnvironmentAndEnvironmentOverProfile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(file, []byte(profiles), 0o600))
	for _, c := range []struct{ name, variables, args, want string }{
		{"nothing", "", "", "127.0.0.1:7233 default"},
		{"default profile", "TEMPORAL_CONFIG_FILE=FILE", "", "from-default:1 default-ns"},
		{"named profile", "TEMPORAL_CONFIG_FILE=FILE", "--profile cloud", "from-cloud:2 cloud-ns TLS"},
		{"profile by environment", "TEMPORAL_CONFIG_FILE=FILE TEMPORAL_PROFILE=cloud", "", "from-cloud:2 cloud-ns TLS"},
		{"file by flag", "TEMPORAL_CONFIG_FILE=", "--config-file FILE", "from-default:1 default-ns"},
		{"environment over profile", "TEMPORAL_CONFIG_FILE=FILE TEMPORAL_ADDRESS=env:3", "", "env:3 default-ns"},
		{"flag over environment", "TEMPORAL_CONFIG_FILE=FILE TEMPORAL_ADDRESS=env:3", "--address flag:4", "flag:4 default-ns"},
		{"tls by flag", "", "--tls", "127.0.0.1:7233 default TLS"},
		{"no tls by flag", "TEMPORAL_CONFIG_FILE=FILE", "--tls=false --profile cloud", "from-cloud:2 cloud-ns"},
		{"server name means tls", "", "--tls-server-name x", "127.0.0.1:7233 default TLS"},
	} {
		variables := env{"TEMPORAL_CONFIG_FILE": "/absent/temporal.toml"}
		for _, v := range strings.Fields(strings.ReplaceAll(c.variables, "=FILE", "="+file)) {
			name, value, _ := strings.Cut(v, "=")
			variables[name] = value
		}
		got, err := parse(t, strings.ReplaceAll(c.args, "FILE", file)).ClientOptions(variables)
		require.NoError(t, err, c.name)
		said := got.HostPort + " " + got.Namespace
		if got.ConnectionOptions.TLS != nil {
			said += " TLS"
		}
		require.Equal(t, c.want, said, c.name)
	}
}

func TestConnectionFaultsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken.toml")
	require.NoError(t, os.WriteFile(broken, []byte("[profile"), 0o600))
	none := env{"TEMPORAL_CONFIG_FILE": "/absent/temporal.toml"}
	for args, want := range map[string]string{
		"--config-file /absent/temporal.toml":                     "/absent/temporal.toml does not exist",
		"--config-file " + broken:                                 broken,
		"--config-file /dev/zero":                                 "/dev/zero is larger than 1024 KiB",
		"--tls-ca-path /dev/zero":                                 "/dev/zero is larger than 1024 KiB",
		"--tls-cert-path " + broken + " --tls-key-path /dev/zero": "the client's key: /dev/zero is larger than 1024 KiB",
		"--profile nowhere":                                       "nowhere",
		"--tls-cert-path a.pem":                                   "key path",
		"--tls-ca-path /absent/ca.pem":                            "/absent/ca.pem",
		"--grpc-meta novalue":                                     "KEY=VALUE",
		"--tls-cert-data x --tls-key-data yyy":                    "cert",
	} {
		_, err := parse(t, args).ClientOptions(none)
		var fault *temporalutil.ConfigError
		require.ErrorAs(t, err, &fault, args)
		require.ErrorContains(t, err, want, args)
	}
}

func parse(t *testing.T, args string) *temporalutil.Options {
	t.Helper()
	var o temporalutil.Options
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	require.NoError(t, flags.Parse(strings.Fields(args)))
	return &o
}
