package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/models/agent"
	"github.com/maestro-hive/maestro/internal/platform/cmdline"
	"github.com/maestro-hive/maestro/internal/platform/temporalutil"
	"github.com/maestro-hive/maestro/internal/store"
)

// target is the Temporal and the store that a command's flags name.
type target struct {
	temporal temporalutil.Options
	stateDir string
	location store.Location
	// ownersDir is the state directory whose owner this process of root has become; empty: it has not.
	ownersDir string
	server    serverFlags
	environ   environ
}

// addTemporalFlags gives a command the flags that say where Temporal is.
func (t *target) addTemporalFlags(cmd *cobra.Command) *cobra.Command {
	cmdline.AddGroup(cmd.Flags(), temporalutil.FlagHeading, t.temporal.AddFlags)
	return cmd
}

func (t *target) addStateDirFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&t.stateDir, "state-dir", "", "directory of the store (default: $MAESTRO_STATE_DIR, else a directory of "+
		"the user)")
	t.location.AddFlags(cmd.Flags())
	return cmd
}

// addNamespaceFlags gives a command that reads only the store what tells the
// namespace of a session.
func (t *target) addNamespaceFlags(cmd *cobra.Command) *cobra.Command {
	cmdline.AddGroup(cmd.Flags(), temporalutil.FlagHeading, func(flags *pflag.FlagSet) {
		flags.StringVarP(&t.temporal.Namespace, "namespace", "n", "", `Temporal namespace of the session (default "default")`)
		flags.StringVar(&t.temporal.Profile, "profile", "", "profile in temporal.toml that names the namespace")
		flags.StringVar(&t.temporal.ConfigFile, "config-file", "", "temporal.toml to read instead of the usual one")
	})
	return cmd
}

// namespace is the namespace that flags, environment and profile name.
func (t *target) namespace() (string, error) {
	options, err := t.temporal.ClientOptions(t.environ)
	return options.Namespace, err
}

// namedFlag is a flag with its value; empty: it is not given.
type namedFlag struct{ name, value string }

// places are the flags that name a Temporal or a store, without credentials.
func (t *target) places() []namedFlag {
	at := t.location.Printable()
	return []namedFlag{
		{"address", t.temporal.Address},
		{"namespace", t.temporal.Namespace},
		{"profile", t.temporal.Profile},
		{"config-file", t.temporal.ConfigFile},
		{"state-dir", t.stateDir},
		{"store", at.Database},
		{"content", at.Content},
	}
}

// commandLine is a command with this command's connection and store flags.
func (t *target) commandLine(command string) string {
	for _, f := range t.places() {
		takesAddress := !strings.HasPrefix(command, "artifacts ") && !strings.HasPrefix(command, "apply ")
		if f.value != "" && (takesAddress || f.name != "address") {
			command += " --" + f.name + " " + agent.ShellWord(f.value)
		}
	}
	return "maestro " + command + t.server.commandLine()
}

// stateFlag is this command's --state-dir flag, for printed commands.
func (t *target) stateFlag() string {
	if t.stateDir == "" {
		return ""
	}
	return " --state-dir " + t.stateDir
}

// newConnectionTopic is a page of help: how commands find Temporal.
func newConnectionTopic() *cobra.Command {
	return &cobra.Command{
		Use: "connection", Short: "How commands find Temporal (help topic)",
		Long: "Commands look for Temporal in this order; the first that is set is used:\n\n" +
			"  1. flags: --address, --namespace, --api-key, --tls-... (`maestro list --help` lists them)\n" +
			"  2. the environment: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS_...\n" +
			"  3. a profile in temporal.toml: --profile or TEMPORAL_PROFILE, --config-file or TEMPORAL_CONFIG_FILE\n" +
			"  4. the `maestro dev` that runs for the store of --state-dir\n" +
			"  5. 127.0.0.1:7233, namespace default\n\n" +
			"`maestro doctor` shows which address is used and whether it answers.",
	}
}

const (
	serverVariable = "MAESTRO_SERVER"
	tokenVariable  = "MAESTRO_TOKEN"
	serverFlag     = "server"
)

// serverFlags name the server that a command works with instead of Temporal and the store.
type serverFlags struct {
	url, tokenFile string
	plainHTTP      bool
}

// addServerFlags gives a command that can work with a server the flags that name it.
func (t *target) addServerFlags(cmd *cobra.Command) *cobra.Command {
	cmdline.AddGroup(cmd.Flags(), "Without Temporal and the store", func(flags *pflag.FlagSet) {
		flags.StringVar(&t.server.url, serverFlag, "", "URL of a server to work with (default: $"+serverVariable+
			"); the token comes from $"+tokenVariable)
		flags.StringVar(&t.server.tokenFile, "token-file", "", "file with the token instead")
		flags.BoolVar(&t.server.plainHTTP, "plain-http", false, "send the token to another host also without encryption")
	})
	return cmd
}

// namesLocal is a flag for a Temporal or a store; empty: none is given.
func (t *target) namesLocal() string {
	for _, f := range append(t.places(),
		namedFlag{"api-key", t.temporal.APIKey}, namedFlag{"tls-cert-path", t.temporal.TLSCertPath},
		namedFlag{"tls-key-path", t.temporal.TLSKeyPath}, namedFlag{"tls-ca-path", t.temporal.TLSCAPath},
	) {
		if f.value != "" {
			return f.name
		}
	}
	return ""
}

// commandLine is the flags as they are written.
func (f serverFlags) commandLine() string {
	line := ""
	for _, g := range []namedFlag{{serverFlag, f.url}, {"token-file", f.tokenFile}} {
		if g.value != "" {
			line += " --" + g.name + " " + agent.ShellWord(g.value)
		}
	}
	if f.plainHTTP {
		line += " --plain-http"
	}
	return line
}

// refuseServer makes commands that need Temporal and the store fail if a server is named.
func refuseServer(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		refuseServer(sub)
	}
	if !cmd.Runnable() || cmd.DisableFlagParsing || cmd.Flags().Lookup(serverFlag) != nil {
		return
	}
	cmd.Flags().Func(serverFlag, "", func(string) error {
		return fmt.Errorf("`%s` works with Temporal and the store themselves, not with a server; leave --%s out", cmd.CommandPath(),
			serverFlag)
	})
	cmd.Flags().Lookup(serverFlag).Hidden = true
}
