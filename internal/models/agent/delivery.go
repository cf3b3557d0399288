package agent

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
)

// The programs of hosts that agents of kind delivery deliver to.
const (
	HostGitHub = "github"
	HostGitLab = "gitlab"
)

// App is a GitHub App, and the private key by which it authenticates.
type App struct {
	// ID is the number of the app, which GitHub shows in its settings.
	ID int64 `yaml:"id" jsonschema:"minimum=1,maximum=1000000000000" example:"123456"`
	// Installation is the number of the app's installation. Default: the one that has the repository.
	Installation int64 `yaml:"installation,omitempty" jsonschema:"minimum=1,maximum=1000000000000"`
	// KeyEnv names the variable of the worker's environment that has the private key, in PEM. Lines may be separated by \n.
	KeyEnv string `yaml:"key_env,omitempty" jsonschema:"oneof_required=key_env,format=variable" example:"GITHUB_APP_KEY"`
	// KeyFile is a file that contains the private key, relative to the worker file. It is read for each attempt.
	KeyFile string `yaml:"key_file,omitempty" jsonschema:"oneof_required=key_file,format=filled"`
}

// DeliverySettings are what a delivery by an agent needs.
type DeliverySettings struct {
	// Host is [HostGitHub] or [HostGitLab], and URL its address, as browsers use it.
	Host, URL string
	// Token is that of an account. Without it AppID, Installation (0: to be found) and Key, in PEM, are those of a GitHub App.
	Token, Key          string
	AppID, Installation int64
	// Err says why there is neither a token nor a key; nil: there is.
	Err error
	// Timeout is the longest time that an attempt may take.
	Timeout time.Duration
}

// Delivery returns the settings of an agent of kind delivery, with the credentials as they are now; false: there is no such
// agent.
func (s *Set) Delivery(agent string) (DeliverySettings, bool) {
	d := s.config.Agents[agent]
	if d.Kind != KindDelivery {
		return DeliverySettings{}, false
	}
	env, file := d.credential()
	secret, err := s.config.secret("the credentials of agent "+agent, env, file, s.o.Getenv)
	out := DeliverySettings{Host: d.Host, URL: strings.TrimRight(d.URL, "/"), Token: secret, Err: err, Timeout: d.Timeout.Std()}
	if d.App != nil {
		out.Token, out.Key = "", strings.ReplaceAll(secret, `\n`, "\n")
		out.AppID, out.Installation = d.App.ID, d.App.Installation
	}
	return out, true
}

func (d Definition) deliveryDefaults() Definition {
	setDefault(&d.Timeout, DefaultDeliveryTimeout)
	setDefault(&d.Concurrency, DefaultDeliveries)
	setDefault(&d.Host, HostGitHub)
	setDefault(&d.URL, map[string]string{HostGitHub: "https://github.com", HostGitLab: "https://gitlab.com"}[d.Host])
	return d
}

// credential names the variable or the file with the credentials of an agent of kind delivery; both are empty for other kinds.
func (d Definition) credential() (env, file string) {
	if d.App == nil {
		return d.TokenEnv, ""
	}
	return d.App.KeyEnv, d.App.KeyFile
}

// delivery checks an agent of kind delivery.
func (v *validator) delivery(path string, d Definition) {
	full := d.deliveryDefaults()
	switch host := hostOf(full.URL); {
	case strings.Contains(full.URL, "/api/v"), host == "api.github.com":
		v.add(path+".url", "is the address of an API; write that of the host, like https://github.com")
	case host == "gitlab.com" && full.Host == HostGitHub, host == "github.com" && full.Host == HostGitLab:
		v.add(path+".url", "is not an address of host %s; write `host: %s`", full.Host, strings.TrimSuffix(host, ".com"))
	}
	switch {
	case d.App != nil && d.TokenEnv != "":
		v.add(path+".app", "conflicts with token_env; keep one of them")
	case d.App != nil && full.Host == HostGitLab:
		v.add(path+".app", "is for GitHub, but host is gitlab; write token_env instead")
	}
}

// environment refuses the credentials of agents that deliver in the environment of another agent or a check.
func (v *validator) environment(path string, env []string) {
	for _, name := range slices.Sorted(maps.Keys(v.config.Agents)) {
		variable, _ := v.config.Agents[name].credential()
		if i := slices.Index(env, variable); i >= 0 {
			v.add(spec.ItemPath(path, i), "has the credentials of agent %q, which the worker uses outside of rooms; leave it out", name)
		}
	}
}
