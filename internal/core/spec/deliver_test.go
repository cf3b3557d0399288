package spec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheRepositoryOfAnAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]string{
		"https://GitHub.com/acme/shop.git":       {"github.com", "acme/shop"},
		"https://git.example:8443/acme/shop/":    {"git.example", "acme/shop"},
		"ssh://git@git.example:22/acme/shop.git": {"git.example", "acme/shop"},
		"git@gitlab.com:group/sub/shop.git":      {"gitlab.com", "group/sub/shop"},
		"https://git.example/":                   {},
		"shop":                                   {},
		"":                                       {},
	} {
		host, name := RepositoryOf(address)
		require.Equal(t, want, [2]string{host, name}, address)
	}
}
