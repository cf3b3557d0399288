package web

import (
	"net/http"

	"github.com/maestro-hive/maestro/internal/access"
)

// protect sets the headers of every page: it loads what this server serves, and nothing else.
func protect(h http.Header) {
	access.SetHeaders(h)
	h.Set("Referrer-Policy", "same-origin") // without a referrer, forms would have no origin either
}
