package jira_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/testkit/jiratest"
)

// TestCheck: one call says what is wrong before a ticket is needed, and creates none.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		project string
		denied  []string
		fault   *jiratest.Fault
		want    string // a part of the trouble; empty: there is none
	}{
		"all is well":       {project: "MD"},
		"credentials alone": {},
		"no project":        {project: "NO", want: "in project NO (404 Not Found)"},
		"unseen project":    {project: "MD", denied: []string{"BROWSE_PROJECTS"}, want: "lacks Browse Projects in project MD"},
		"no permissions": {
			project: "MD", denied: []string{"CREATE_ISSUES", "ADD_COMMENTS"},
			want: "lacks Add Comments, Create Issues in project MD",
		},
		"who":  {project: "MD", fault: new(jiratest.Refusal(401, nil, "No.")), want: "JIRA_TOKEN"},
		"down": {fault: &jiratest.Fault{Status: 503}, want: "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, o jiratest.Options) {
				o.Projects = []jiratest.Project{{Key: "MD", Types: []jiratest.Type{{Name: "Bug"}}, Denied: tt.denied}}
				s, c := open(t, o)
				if tt.fault != nil {
					s.Fail(*tt.fault)
				}
				err := c.Check(t.Context(), tt.project)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				require.Len(t, s.Requests(), 1)
				require.Equal(t, http.MethodGet, s.Requests()[0].Method)
			})
		})
	}
}
