package temporalutil

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/pflag"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/maestro-hive/maestro/internal/bounded"
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
	// TLS switches TLS on or off; nil leaves it to the other options.
	TLS                        *bool
	TLSCertPath                string
	TLSCertData                string
	TLSKeyPath                 string
	TLSKeyData                 string
	TLSCAPath                  string
	TLSCAData                  string
	TLSServerName              string
	TLSDisableHostVerification bool
	// Headers are gRPC headers, as KEY=VALUE.
	Headers []string

	// StoreDir is the directory of the store that the program uses, and Host this machine's name:
	// if no address is given, it is that of the server that `maestro dev` runs for the store.
	// Empty: there is no store.
	StoreDir, Host string
}

// FlagHeading is the heading of the connection flags in help.
const FlagHeading = "Connection to Temporal"

// AddFlags defines the connection flags, named as Temporal's own tools do.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Address, "address", "", "Temporal's host and port (default 127.0.0.1:7233)")
	flags.StringVarP(&o.Namespace, "namespace", "n", "", `Temporal namespace (default "default")`)
	flags.StringVar(&o.Profile, "profile", "", "profile in temporal.toml")
	flags.StringVar(&o.ConfigFile, "config-file", "", "temporal.toml to read instead of the usual one")
	flags.StringVar(&o.APIKey, "api-key", "", "API key; prefer TEMPORAL_API_KEY")
	tls := flags.VarPF(&optionalBool{&o.TLS}, "tls", "", "connect with TLS; implied by the other TLS flags and by an API key")
	tls.NoOptDefVal = "true"
	flags.StringVar(&o.TLSCertPath, "tls-cert-path", "", "file with the client's certificate")
	flags.StringVar(&o.TLSCertData, "tls-cert-data", "", "the client's certificate, PEM")
	flags.StringVar(&o.TLSKeyPath, "tls-key-path", "", "file with the client's key")
	flags.StringVar(&o.TLSKeyData, "tls-key-data", "", "the client's key, PEM")
	flags.StringVar(&o.TLSCAPath, "tls-ca-path", "", "file with the certificate of the server's authority")
	flags.StringVar(&o.TLSCAData, "tls-ca-data", "", "certificate of the server's authority, PEM")
	flags.StringVar(&o.TLSServerName, "tls-server-name", "", "expected name in the server's certificate")
	flags.BoolVar(&o.TLSDisableHostVerification, "tls-disable-host-verification", false, "accept any certificate")
	flags.StringArrayVar(&o.Headers, "grpc-meta", nil, "gRPC header, as KEY=VALUE; repeatable")
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

func (o *Options) profile(env Environment) (envconfig.ClientConfigProfile, error) {
	options := envconfig.LoadClientConfigProfileOptions{ConfigFileProfile: o.Profile, EnvLookup: env}
	file := o.file(env)
	data, err := bounded.ReadFile(file, maxConfigFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.ConfigFile != "":
		// A file that is named explicitly must exist; only the usual one may
		// be missing.
		return envconfig.ClientConfigProfile{}, fmt.Errorf("--config-file: %s does not exist", o.ConfigFile)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return envconfig.ClientConfigProfile{}, err
	}
	options.ConfigFileData = append(data, '\n') // of no bytes, the library would read the usual file
	profile, err := envconfig.LoadClientConfigProfile(options)
	if err != nil {
		return profile, fmt.Errorf("%s: %w", file, err)
	}
	setIf(&profile.Address, o.Address)
	setIf(&profile.Namespace, o.Namespace)
	setIf(&profile.APIKey, o.APIKey)
	o.applyTLS(&profile)
	if err := readTLS(profile.TLS); err != nil {
		return profile, err
	}
	return profile, o.applyHeaders(&profile)
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

// file is the temporal.toml that is read, if it is there.
func (o *Options) file(env Environment) string {
	if o.ConfigFile != "" {
		return o.ConfigFile
	}
	if file, _ := env.LookupEnv("TEMPORAL_CONFIG_FILE"); file != "" {
		return file
	}
	return envconfig.DefaultConfigFilePath()
}

// applyTLS puts the flags over the profile. Naming a file replaces data that the
// profile has, and the other way round.
func (o *Options) applyTLS(profile *envconfig.ClientConfigProfile) {
	t := envconfig.ClientConfigTLS{}
	if profile.TLS != nil {
		t = *profile.TLS
	}
	before, given := profile.TLS != nil, o.TLS != nil || o.TLSDisableHostVerification
	for _, f := range []struct {
		path, data         string
		intoPath           *string
		intoData           *[]byte
		isGivenBySomething *bool
	}{
		{o.TLSCertPath, o.TLSCertData, &t.ClientCertPath, &t.ClientCertData, &given},
		{o.TLSKeyPath, o.TLSKeyData, &t.ClientKeyPath, &t.ClientKeyData, &given},
		{o.TLSCAPath, o.TLSCAData, &t.ServerCACertPath, &t.ServerCACertData, &given},
	} {
		if f.path == "" && f.data == "" {
			continue
		}
		*f.intoPath, *f.intoData, *f.isGivenBySomething = f.path, []byte(f.data), true
	}
	if o.TLSServerName != "" {
		t.ServerName, given = o.TLSServerName, true
	}
	if o.TLSDisableHostVerification {
		t.DisableHostVerification = true
	}
	if o.TLS != nil {
		t.Disabled = !*o.TLS
	}
	if before || given {
		profile.TLS = &t
	}
}

func (o *Options) applyHeaders(profile *envconfig.ClientConfigProfile) error {
	for _, header := range o.Headers {
		key, value, ok := strings.Cut(header, "=")
		if !ok || key == "" {
			return fmt.Errorf("--grpc-meta: %q is not of the form KEY=VALUE", header)
		}
		if profile.GRPCMeta == nil {
			profile.GRPCMeta = map[string]string{}
		}
		profile.GRPCMeta[envconfig.NormalizeGRPCMetaKey(key)] = value
	}
	return nil
}

func setIf(field *string, value string) {
	if value != "" {
		*field = value
	}
}

// optionalBool is a flag that knows whether it was given.
type optionalBool struct{ value **bool }

func (b *optionalBool) String() string {
	if b.value == nil || *b.value == nil {
		return ""
	}
	return fmt.Sprint(**b.value)
}

func (b *optionalBool) Set(s string) error {
	switch strings.ToLower(s) {
	case "true", "1":
		*b.value = new(true)
	case "false", "0":
		*b.value = new(false)
	default:
		return fmt.Errorf("%q is neither true nor false", s)
	}
	return nil
}

func (b *optionalBool) Type() string { return "bool" }
