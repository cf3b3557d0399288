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
	absent := filepath.Join(t.TempDir(), "absent.toml")
	for _, c := range []struct {
		name               string
		args               string
		env                env
		address, namespace string
		tls                bool
	}{
		{"nothing", "", env{"TEMPORAL_CONFIG_FILE": absent}, "127.0.0.1:7233", "default", false},
		{"default profile", "", env{"TEMPORAL_CONFIG_FILE": file}, "from-default:1", "default-ns", false},
		{"named profile", "--profile cloud", env{"TEMPORAL_CONFIG_FILE": file}, "from-cloud:2", "cloud-ns", true},
		{
			"profile by environment", "",
			env{"TEMPORAL_CONFIG_FILE": file, "TEMPORAL_PROFILE": "cloud"},
			"from-cloud:2", "cloud-ns",
			true,
		},
		{"file by flag", "--config-file " + file, env{}, "from-default:1", "default-ns", false},
		{
			"environment over profile", "",
			env{"TEMPORAL_CONFIG_FILE": file, "TEMPORAL_ADDRESS": "from-env:3"},
			"from-env:3",
			"default-ns", false,
		},
		{
			"flag over environment", "--address from-flag:4",
			env{"TEMPORAL_CONFIG_FILE": file, "TEMPORAL_ADDRESS": "from-env:3"},
			"from-flag:4", "default-ns", false,
		},
		{"tls by flag", "--tls", env{"TEMPORAL_CONFIG_FILE": absent}, "127.0.0.1:7233", "default", true},
		{"no tls by flag", "--tls=false --profile cloud", env{"TEMPORAL_CONFIG_FILE": file}, "from-cloud:2", "cloud-ns", false},
		{"server name means tls", "--tls-server-name x", env{"TEMPORAL_CONFIG_FILE": absent}, "127.0.0.1:7233", "default", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := parse(t, c.args).ClientOptions(c.env)
			require.NoError(t, err)
			require.Equal(t, c.address, got.HostPort)
			require.Equal(t, c.namespace, got.Namespace)
			require.Equal(t, c.tls, got.ConnectionOptions.TLS != nil)
		})
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
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, args).ClientOptions(none)
			var fault *temporalutil.ConfigError
			require.ErrorAs(t, err, &fault)
			require.ErrorContains(t, err, want)
		})
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
