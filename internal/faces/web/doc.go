// Package web is the dashboard: pages for people, written by the server, with one stylesheet and
// one script. It shows what internal/ops/control returns and changes nothing by itself.
package web
