// Package web is the dashboard: pages for people, written by the server, with one stylesheet and
// one script. It shows what internal/ops/control returns and changes nothing by itself. web.go has the routes; each page is made
// in the file of its name, from the template of that name. Pages are live: assets/app.js listens to FollowEvents of
// httpapi/table.go, which is fed by internal/ops/control/feed.go, and fetches the page again.
package web
