// Package web is the dashboard: pages for people, written by the server, with one stylesheet and one script. It shows what
// internal/ops/control returns and changes nothing by itself. Start reading in web.go, which has the routes; each page is made
// in the file that the list below names, from a template in templates. Pages are live: assets/app.js listens to FollowEvents of
// httpapi/table.go, which is fed by internal/ops/control/feed.go, and fetches the page again.
//
//	web.go           the addresses of all pages and forms, the headers of pages, the forms that answer requests, and what is said
//	                 after a form
//	render.go        what is around each page, and the functions of templates; assets.go: stylesheet and scripts
//	appearance.go    the word, icon and tone of each state; format.go: how money, times and addresses of pages are written
//	problem.go       the status, title and command of an error; filter.go: the fields of an address, and the choices of since
//	inbox.go         how many requests a page has, which are open at first, and how phases are approved together
//	request_card.go  the buttons of a request, and which requests are for others than the person who looks
//	session.go       the page of a session, and its cancelling; sentence.go: what a session is said to do or to wait for
//	graph.go         the places and sizes of phases in the picture; thread.go: how much of what was said and decided is shown
//	timeline.go      times of work and waiting, the shortest wait that is shown, and which times are shortened
//	attempt.go       the pages of assignments and attempts, and how many lines of a conversation and matches of a search they
//	                 have
//	review.go        the changes of a phase, and comparisons: the most files, bytes and lines on one page
//	resume.go        the pages that resume, fork and edit, and the largest file that can be edited
//	start.go         the pages that choose a team, start a session and register a team, and the largest team file; start_form.go:
//	                 the fields of a start, their order and their labels
//	lists.go         the pages of sessions, checkpoints and the audit log, and how many sessions a page has; teams.go: registered
//	                 teams
//	history.go       what sessions came to and cost, and how many groups are shown; history_chart.go: how many days the chart has
//	operate.go       workers, queues, breakers and hooks; operate_health.go: budgets of the day, store and examination, and how
//	                 long the page waits for them
//	budgets.go       the bars of budgets, and when one is nearly spent; settle.go: the forms that raise budgets and settle calls
//	account.go       the page of the signed-in person; the forms on it are those of internal/access
package web
