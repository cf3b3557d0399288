// Package httpapi is the HTTP API: the operations of internal/ops/control under /api/v1, with an
// OpenAPI 3.1 document made from the same Go types. Errors are application/problem+json.
// Whoever calls has been identified before, by the middleware of internal/access.
package httpapi
