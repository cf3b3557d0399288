package temporalutil

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/maestro-hive/maestro/internal/platform/bounded"
)

// defaultAddress is the address if nothing else names one.
const defaultAddress = "127.0.0.1:7233"

// Options is where Temporal is, as given by flags. Missing values come from the environment
// (TEMPORAL_ADDRESS and others), and then from a profile in temporal.toml.
type Options struct {
	Address    string
	Namespace  string
	Profile    string
	ConfigFile string
	APIKey     string
	// TLS and TLSDisableHostVerification are true or false; empty leaves them to the other options.
	TLS, TLSDisableHostVerification string
	TLSCertPath, TLSCertData        string
	TLSKeyPath, TLSKeyData          string
	TLSCAPath, TLSCAData            string
	TLSServerName                   string
	// Headers are gRPC headers, as KEY=VALUE.
	Headers []string

	// StoreDir is the directory of the store that the program uses, and Host this machine's name:
	// if no address is given, it is that of the server that `maestro dev` runs for the store.
	// Empty: there is no store.
	StoreDir, Host string
}

// FlagHeading is the heading of the connection flags in help.
const FlagHeading = "Connection to Temporal"

// connectionFlag is a flag that stands for an environment variable.
type connectionFlag struct {
	value *string
	// instead is the flag whose variable does not count if this one is given; nil: none.
	instead               *string
	name, variable, usage string
}

func (o *Options) flags() []connectionFlag {
	return []connectionFlag{
		{&o.Profile, nil, "profile", "PROFILE", "profile in temporal.toml"},
		{&o.ConfigFile, nil, "config-file", "CONFIG_FILE", "temporal.toml to read instead of the usual one"},
		{&o.Address, nil, "address", "ADDRESS", "Temporal's host and port (default 127.0.0.1:7233)"},
		{&o.APIKey, nil, "api-key", "API_KEY", "API key; prefer TEMPORAL_API_KEY"},
		{&o.TLSCertPath, &o.TLSCertData, "tls-cert-path", "TLS_CLIENT_CERT_PATH", "file with the client's certificate"},
		{&o.TLSCertData, &o.TLSCertPath, "tls-cert-data", "TLS_CLIENT_CERT_DATA", "the client's certificate, PEM"},
		{&o.TLSKeyPath, &o.TLSKeyData, "tls-key-path", "TLS_CLIENT_KEY_PATH", "file with the client's key"},
		{&o.TLSKeyData, &o.TLSKeyPath, "tls-key-data", "TLS_CLIENT_KEY_DATA", "the client's key, PEM"},
		{&o.TLSCAPath, &o.TLSCAData, "tls-ca-path", "TLS_SERVER_CA_CERT_PATH", "file with the certificate of the server's authority"},
		{&o.TLSCAData, &o.TLSCAPath, "tls-ca-data", "TLS_SERVER_CA_CERT_DATA", "certificate of the server's authority, PEM"},
		{&o.TLSServerName, nil, "tls-server-name", "TLS_SERVER_NAME", "expected name in the server's certificate"},
		{&o.Namespace, nil, "namespace", "NAMESPACE", `Temporal namespace (default "default")`},
		{&o.TLS, nil, "tls", "TLS", "connect with TLS; implied by the other TLS flags and by an API key"},
		{
			&o.TLSDisableHostVerification, nil, "tls-disable-host-verification", "TLS_DISABLE_HOST_VERIFICATION",
			"accept any certificate",
		},
	}
}

// AddFlags defines the connection flags, named as Temporal's own tools do.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	for _, f := range o.flags() {
		switch f.value {
		case &o.TLS, &o.TLSDisableHostVerification:
			flags.BoolFunc(f.name, f.usage, func(text string) error {
				yes, err := strconv.ParseBool(text)
				*f.value = strconv.FormatBool(yes)
				return err
			})
		case &o.Namespace:
			flags.StringVarP(f.value, f.name, "n", "", f.usage)
		default:
			flags.StringVar(f.value, f.name, "", f.usage)
		}
	}
	flags.StringArrayVar(&o.Headers, "grpc-meta", nil, "gRPC header, as KEY=VALUE; repeatable")
}

// flagged is an environment in which flags replace the variables that they stand for.
type flagged struct {
	*Options
	Environment
}

// LookupEnv implements [envconfig.EnvLookup].
func (e flagged) LookupEnv(variable string) (string, bool) {
	for _, f := range e.flags() {
		switch {
		case "TEMPORAL_"+f.variable != variable:
		case *f.value != "":
			return *f.value, true
		case f.instead != nil && *f.instead != "":
			return "", true
		}
	}
	return e.Environment.LookupEnv(variable)
}

// Environ implements [envconfig.EnvLookup].
func (e flagged) Environ() []string {
	all := slices.Clone(e.Environment.Environ())
	for _, header := range e.Headers {
		all = append(all, "TEMPORAL_GRPC_META_"+header)
	}
	return all
}

// maxConfigFile bounds temporal.toml and the files with certificates and keys, in bytes.
const maxConfigFile = 1 << 20

// ConfigError is a fault in flags, environment or temporal.toml.
type ConfigError struct{ Err error }

// Error describes what is wrong and where.
func (e *ConfigError) Error() string { return "Temporal connection: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.Err }

// Environment looks up environment variables.
type Environment = envconfig.EnvLookup

// ClientOptions merges flags, environment and profile, in this order of precedence, into the
// options of a client. Address and namespace are always set: without an address it is that of the
// store's own server, else 127.0.0.1:7233. Every error is a [*ConfigError].
func (o *Options) ClientOptions(env Environment) (client.Options, error) {
	profile, err := o.profile(env)
	if err != nil {
		return client.Options{}, &ConfigError{err}
	}
	options, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return client.Options{}, &ConfigError{err}
	}
	if options.HostPort == "" {
		options.HostPort = defaultAddress
		if local, lives := FindLocal(o.StoreDir, o.Host); lives {
			options.HostPort = local.Address
		}
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	return options, nil
}

// Named reports whether flags, environment or profile name an address. Every error is a [*ConfigError].
func (o *Options) Named(env Environment) (bool, error) {
	profile, err := o.profile(env)
	if err != nil {
		return false, &ConfigError{err}
	}
	return profile.Address != "", nil
}

func (o *Options) profile(given Environment) (profile envconfig.ClientConfigProfile, err error) {
	for _, header := range o.Headers {
		if key, _, ok := strings.Cut(header, "="); !ok || key == "" {
			return profile, fmt.Errorf("--grpc-meta: %q is not of the form KEY=VALUE", header)
		}
	}
	env := flagged{o, given}
	file, _ := env.LookupEnv("TEMPORAL_CONFIG_FILE")
	file = cmp.Or(file, envconfig.DefaultConfigFilePath())
	data, err := bounded.ReadFile(file, maxConfigFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.ConfigFile != "":
		// A file that is named explicitly must exist; only the usual one may
		// be missing.
		return profile, fmt.Errorf("--config-file: %s does not exist", o.ConfigFile)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return profile, err
	}
	profile, err = envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{
		ConfigFileData: append(data, '\n'), // of no bytes, the library would read the usual file
		EnvLookup:      env,
	})
	if err != nil {
		return profile, fmt.Errorf("%s: %w", file, err)
	}
	return profile, readTLS(profile.TLS)
}

// readTLS reads the files that a profile names, for which the library has no bound.
// It leaves to the library what does not fit together.
func readTLS(t *envconfig.ClientConfigTLS) error {
	if t == nil || t.Disabled {
		return nil
	}
	read := func(path *string, data *[]byte) (err error) {
		if *path == "" || len(*data) > 0 {
			return nil
		}
		if *data, err = bounded.ReadFile(*path, maxConfigFile); err != nil {
			return err
		}
		if len(*data) > 0 {
			*path = ""
		}
		return nil
	}
	if err := read(&t.ServerCACertPath, &t.ServerCACertData); err != nil {
		return fmt.Errorf("the certificate of the server's authority: %w", err)
	}
	if t.ClientCertPath == "" || t.ClientKeyPath == "" {
		return nil
	}
	if err := read(&t.ClientCertPath, &t.ClientCertData); err != nil {
		return fmt.Errorf("the client's certificate: %w", err)
	}
	if err := read(&t.ClientKeyPath, &t.ClientKeyData); err != nil {
		return fmt.Errorf("the client's key: %w", err)
	}
	return nil
}
