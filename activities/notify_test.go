package activities_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/activities"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/core/spec"
)

// outside keeps what it is told, by whom it is for.
type recipients struct {
	told    []string
	telling []activities.TicketNotice
	notice  session.Notice
	err     error
}

func (o *recipients) NotifyFailure(_ context.Context, fingerprint string, t activities.TicketNotice) error {
	return o.take("failure "+fingerprint, t)
}

func (o *recipients) NotifyTicket(_ context.Context, key string, t activities.TicketNotice) error {
	return o.take("ticket "+key, t)
}

func (o *recipients) NotifyWebhook(_ context.Context, n session.Notice) error {
	return o.take("webhook", activities.TicketNotice{Notice: n})
}

func (o *recipients) take(who string, t activities.TicketNotice) error {
	o.told, o.telling, o.notice = append(o.told, who), append(o.telling, t), t.Notice
	return o.err
}

func TestNoticeReachesEveryoneWhoIsToHearOfIt(t *testing.T) {
	t.Parallel()
	jira := &spec.HelpJira{Project: "MD"}
	help := session.Notice{Team: "t", Request: &session.Request{
		Phase: "build", Persona: "dev", Category: failures.Timeout,
		Message: "took 30 s",
	}}
	own := session.Fingerprint("t", spec.AssignmentID{Phase: "build", Persona: "dev"}, failures.Timeout, "took 45 s")
	approval := session.Notice{Team: "t", Request: &session.Request{Kind: session.ForApproval, Phase: "build"}}
	for name, tt := range map[string]struct {
		in   activities.NotifyInput
		want []string
		own  string
	}{
		"nobody": {activities.NotifyInput{Notice: help, Fingerprints: []string{"f1"}}, nil, ""},
		"an end": {
			activities.NotifyInput{Jira: jira, Fingerprints: []string{"f1", "f2"}},
			[]string{"failure f1", "failure f2"},
			"",
		},
		"an approval": {activities.NotifyInput{Notice: approval, Jira: jira, ReportTo: "MD-1"}, []string{"ticket MD-1"}, ""},
		"the origin":  {activities.NotifyInput{Notice: help, ReportTo: "MD-1"}, []string{"ticket MD-1"}, ""},
		"all": {
			activities.NotifyInput{Notice: help, Jira: jira, Fingerprints: []string{own}, ReportTo: "MD-1", Webhook: true},
			[]string{"failure " + own, "ticket MD-1", "webhook"},
			own,
		},
	} {
		o := &recipients{}
		n := &activities.Notices{Recipients: o, Mask: func(s string) string { return s }}
		out, err := n.Notify(t.Context(), tt.in)
		require.NoError(t, err, name)
		require.Equal(t, tt.want, o.told, name)
		require.Equal(t, tt.own, out.Fingerprint, name)
		switch name {
		case "all":
			require.Equal(t, jira, o.telling[0].Jira)
			require.True(t, o.telling[1].Quiet, "the request's ticket is that of the failure")
			require.Nil(t, o.telling[1].Jira)
		case "the origin", "an approval":
			require.False(t, o.telling[0].Quiet)
		}
	}
	o := &recipients{err: errors.New("Temporal is away")}
	n := &activities.Notices{Recipients: o, Mask: func(s string) string { return s }}
	_, err := n.Notify(t.Context(), activities.NotifyInput{ReportTo: "MD-1", Webhook: true})
	require.ErrorContains(t, err, "Temporal is away")
}

func TestNoticeLeavesWithoutSecretsAndWithItsAddress(t *testing.T) {
	t.Parallel()
	o := &recipients{}
	n := &activities.Notices{
		Recipients: o, WebUI: "http://localhost:8233/", Dashboard: func(context.Context) string { return "https://maestro.example" },
		PullRequests: func(_ context.Context, k session.Key) []string { return []string{"https://git.example/" + k.Session} },
		Mask:         func(s string) string { return strings.ReplaceAll(s, "hunter22", "***") },
	}
	in := session.Notice{
		ID: "1", Session: "s", Namespace: "default", RunID: "r", Reason: "key hunter22",
		Request: &session.Request{Message: "hunter22 is wrong", Suggestion: "use hunter22"},
		Answer:  &session.Answer{Note: "hunter22", By: "ann"}, Commands: []string{"maestro resolve s retry --note hunter22"},
	}
	for range 30 {
		in.Request.Attempts = append(in.Request.Attempts, session.AttemptFailure{Message: "hunter22 " + strings.Repeat("x", 1000)})
	}
	_, err := n.Notify(t.Context(), activities.NotifyInput{Notice: in, Webhook: true})
	require.NoError(t, err)
	require.Equal(t, session.NoticeSchema, o.notice.Schema)
	require.Equal(t, "http://localhost:8233/namespaces/default/workflows/s/r", o.notice.WebUI)
	require.Equal(t, "https://maestro.example/sessions/s", o.notice.Dashboard)
	require.Equal(t, []string{"https://git.example/s"}, o.notice.PullRequests)
	require.Equal(t, "key ***", o.notice.Reason)
	require.Equal(t, "*** is wrong", o.notice.Request.Message)
	require.Equal(t, "use ***", o.notice.Request.Suggestion)
	require.Equal(t, session.Answer{Note: "***", By: "ann"}, *o.notice.Answer)
	require.Equal(t, []string{"maestro resolve s retry --note ***"}, o.notice.Commands)
	require.Len(t, o.notice.Request.Attempts, 20)
	require.LessOrEqual(t, len(o.notice.Request.Attempts[0].Message), session.MaxMessage)
	require.True(t, strings.HasPrefix(o.notice.Request.Attempts[0].Message, "*** x"))
	require.Contains(t, in.Request.Message, "hunter22", "the session's own is not touched")
}
