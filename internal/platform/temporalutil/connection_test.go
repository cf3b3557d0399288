package temporalutil_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil/temporaltest"
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

func TestDialReachesAServer(t *testing.T) {
	t.Parallel()
	address := temporaltest.Start(t)
	c, err := temporalutil.Dial(t.Context(), &temporalutil.Options{Address: address}, env{"TEMPORAL_CONFIG_FILE": "/absent"}, nil)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, address, c.Address)
	require.Equal(t, "default", c.Namespace)

	_, err = c.DescribeWorkflowExecution(t.Context(), "nobody", "")
	require.True(t, temporalutil.NotFound(err), "%v", err)

	other, err := temporalutil.DialAddress(t.Context(), address, "nowhere", nil)
	require.NoError(t, err)
	defer other.Close()
	_, err = other.DescribeWorkflowExecution(t.Context(), "nobody", "")
	require.True(t, temporalutil.NoNamespace(err), "%v", err)
}

func TestDialSaysInTimeThatNobodyAnswers(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never says a word
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, refusing.Close())
	for _, address := range []string{silent.Addr().String(), refusing.Addr().String()} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			_, err := temporalutil.DialAddress(t.Context(), address, "default", nil)
			var unreachable *temporalutil.UnreachableError
			require.ErrorAs(t, err, &unreachable)
			require.Equal(t, address, unreachable.Address)
			require.ErrorContains(t, err, "cannot reach Temporal at "+address)
			require.True(t, temporalutil.Unreachable(err))
		})
	}
}

func TestSearchAttributesAreAddedOnce(t *testing.T) {
	t.Parallel()
	keys := []temporal.SearchAttributeKey{
		temporal.NewSearchAttributeKeyKeyword("TestWord"), temporal.NewSearchAttributeKeyKeywordList("TestWords"),
		temporal.NewSearchAttributeKeyInt64("TestNumber"),
	}
	c, err := temporalutil.DialAddress(t.Context(), temporaltest.Start(t), "default", nil)
	require.NoError(t, err)
	defer c.Close()
	now := time.Now()
	clock := func() time.Time { return now }
	s := temporalutil.NewSearchAttributes(c, "default", clock, keys...)
	missing, err := s.Missing(t.Context())
	require.NoError(t, err)
	require.Equal(t, keys, missing)
	require.Equal(t, "temporal operator search-attribute create --namespace default --name TestWord --type Keyword"+
		" --name TestWords --type KeywordList --name TestNumber --type Int", temporalutil.AddCommand("default", missing))

	require.Eventually(t, func() bool {
		now = now.Add(time.Hour) // a "no" is not believed for ever
		return s.Ready(t.Context())
	}, time.Minute, 10*time.Millisecond)
	missing, err = s.Missing(t.Context())
	require.NoError(t, err)
	require.Empty(t, missing)
	require.NoError(t, s.Add(t.Context(), keys), "adding what is there is no error")
}
