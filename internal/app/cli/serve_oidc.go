package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/maestro-hive/maestro/internal/access"
	"github.com/maestro-hive/maestro/internal/platform/bounded"
)

// oidcSecretVariable has the secret that the provider of sign-ins knows the server by.
const oidcSecretVariable = "MAESTRO_OIDC_SECRET" //nolint:gosec // the name of a variable

// maxOIDCSecret bounds the file of the secret, in bytes.
const maxOIDCSecret = 4 << 10

// oidcFlags name the provider by which people sign in.
type oidcFlags struct {
	options    access.OIDCOptions
	groups     []string
	secretFile string
}

func (f *oidcFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.options.Issuer, "oidc-issuer", "", "address of the OpenID Connect provider by which people sign in")
	flags.StringVar(&f.options.ClientID, "oidc-client-id", "", "what the provider calls this server; its secret is in $"+oidcSecretVariable)
	flags.StringVar(&f.secretFile, "oidc-secret-file", "", "file with the secret instead")
	flags.StringArrayVar(&f.groups, "oidc-group", nil, "GROUP=ROLE or GROUP=ROLE:TEAM: the role of a group of the provider; repeatable")
	flags.StringVar(&f.options.GroupsClaim, "oidc-groups-claim", "groups", "claim that has a person's groups")
	flags.StringSliceVar(&f.options.Scopes, "oidc-scope", nil, "scope to request in addition to openid, profile and email; repeatable")
}

// provider is the provider that the flags name; nil: none.
func (f *oidcFlags) provider(getenv func(string) string) (*access.OIDCOptions, error) {
	o := f.options
	if o.Issuer == "" {
		if o.ClientID != "" || len(f.groups) > 0 || f.secretFile != "" {
			return nil, usagef("missing --oidc-issuer, the address of the provider")
		}
		return nil, nil
	}
	if o.ClientID == "" || len(f.groups) == 0 {
		return nil, usagef("--oidc-issuer needs --oidc-client-id, and --oidc-group GROUP=ROLE: without one, no person has a role")
	}
	for _, text := range f.groups {
		group, err := access.ParseGroupRole(text)
		if err != nil {
			return nil, usagef("--oidc-group: %w", err)
		}
		o.Groups = append(o.Groups, group)
	}
	o.Secret = getenv(oidcSecretVariable)
	if f.secretFile != "" {
		secret, err := bounded.ReadFile(f.secretFile, maxOIDCSecret)
		if err != nil {
			return nil, usagef("--oidc-secret-file: %w", err)
		}
		o.Secret = strings.TrimSpace(string(secret))
	}
	return &o, nil
}
