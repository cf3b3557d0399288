package web

import (
	"net/http"

	"github.com/maestro-hive/maestro/internal/access"
)

// accountPage is the content of the page of the signed-in person.
type accountPage struct {
	access.Account
	Who   access.Actor
	Roles []string
}

func (s *site) account(r *http.Request) (page, error) {
	who, _ := access.Of(r.Context())
	content := accountPage{Who: who, Roles: who.Roles.Grants()}
	var err error
	content.Account, err = s.Account.Own(r.Context())
	return page{View: "account", Title: "Your account", Content: content}, err
}
