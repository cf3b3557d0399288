package gateway

import (
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/maestro-hive/maestro/internal/models/wire"
)

// droppedHeaders are removed from requests and answers, as are keys and the headers of the connection.
var droppedHeaders = []string{
	"Api-Key", "Cookie", "Forwarded", "Via", "Expect", "Host", "Content-Length", "Accept-Encoding",
	"Openai-Organization", "Openai-Project", "Set-Cookie", "Location", "Refresh", "Alt-Svc",
	"Idempotency-Key", "X-Idempotency-Key", // with one, Go's transport would send a call twice, and one would not be booked
}

// droppedPrefixes are prefixes of headers that are removed: they name another client, method or path, or request a part
// of the answer, which may not contain the usage.
var droppedPrefixes = []string{
	"X-Forwarded-", "Proxy-", "Maestro-", "X-Goog-", "X-Http-Method", "X-Method-Override",
	"X-Original-", "X-Rewrite-", "Range", "If-",
}

// hopHeaders are the headers of a connection.
var hopHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Http2-Settings",
}

// passedHeaders returns the headers of a request or an answer without those that are removed. The
// headers that Connection names are headers of the connection, too.
func passedHeaders(from http.Header) http.Header {
	out := from.Clone()
	for _, names := range from["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			delete(out, textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)))
		}
	}
	wire.RemoveKeys(out)
	for _, name := range slices.Concat(hopHeaders, droppedHeaders) {
		delete(out, name)
	}
	for name := range out {
		if slices.ContainsFunc(droppedPrefixes, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
			delete(out, name)
		}
	}
	return out
}

// passedParameters are the permitted query parameters. Others, of Google's servers, remove parts of the answer, like its usage.
var passedParameters = []string{
	"alt", "api-version", "beta", "after", "after_id", "before_id", "limit", "order", "pageSize",
	"pageToken",
}

// query returns the permitted part of a request's query, which is without the token.
func query(from *url.URL) string {
	values := from.Query()
	maps.DeleteFunc(values, func(name string, said []string) bool {
		json := name != "alt" || slices.Equal(said, []string{"sse"}) || slices.Equal(said, []string{"json"})
		return !json || !slices.Contains(passedParameters, name)
	})
	return values.Encode()
}
