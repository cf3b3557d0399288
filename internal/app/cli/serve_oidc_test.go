package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAProviderOfSignInsIsNamedCompletely(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for args, want := range map[string]string{
		"--oidc-client-id x":                                                                  "missing --oidc-issuer",
		"--oidc-group a=viewer":                                                               "missing --oidc-issuer",
		"--oidc-issuer https://x.example":                                                     "needs --oidc-client-id",
		"--oidc-issuer https://x.example --oidc-client-id x":                                  "--oidc-group GROUP=ROLE",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-group a=b":                 `"b" is not a role`,
		"--oidc-person a@b.example=viewer":                                                    "missing --oidc-issuer",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-person b.example=viewer":   "is not ADDRESS=ROLE",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-person @b.example=viewer":  "no name before the @",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-domain a@b.example=viewer": "is not ADDRESS=ROLE or DOMAIN=ROLE",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-domain b.example=boss":     `"boss" is not a role`,
		"--as ann":                      "belong together",
		"--link --role viewer":          "belong together",
		"--link --as a@b --role viewer": "--as",
		"--link --as ann --role boss":   `"boss" is not a role`,
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-group a=viewer --oidc-secret-file nowhere":   "nowhere",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-group a=viewer --oidc-secret-file /dev/zero": "larger than 4 KiB",
		"--oidc-issuer https://x.example --oidc-client-id x --oidc-group a=viewer":                              "is not a store",
	} {
		got := d.run(append([]string{"serve"}, strings.Fields(args)...)...)
		require.Equal(t, 2, got.code, args)
		require.Contains(t, got.stderr.String(), want, args)
	}
}
