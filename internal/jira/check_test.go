package jira_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/jira"
	"github.com/maestro-hive/maestro/internal/jiratest"
	"github.com/maestro-hive/maestro/internal/spec"
)

// TestCheck: what is found wrong before a ticket is needed.
func TestCheck(t *testing.T) {
	t.Parallel()
	site := jiratest.Field{ID: "customfield_10010", Name: "Site", Required: true, Options: []string{"Berlin", "Bonn"}}
	for name, tt := range map[string]struct {
		how     spec.HelpJira
		project jiratest.Project
		// bad is what is wrong, what and message; empty: nothing is.
		bad map[string]string
		fix string
	}{
		"all is well": {
			spec.HelpJira{
				Project: "MD", Components: []string{"Back end"}, Priorities: map[failures.Category]string{failures.Auth: "High"},
				Fields: map[string]any{"customfield_10010": map[string]any{"value": "Bonn"}},
			},
			jiratest.Project{Components: []string{"Back end"}, Priorities: []string{"High"}, Types: []jiratest.Type{{Name: "Bug", Fields: []jiratest.Field{site, {ID: "customfield_2", Name: "Ward", Required: true, Default: true}}}}},
			nil, "",
		},
		"credentials alone": {spec.HelpJira{}, jiratest.Project{}, nil, ""},
		"no project":        {spec.HelpJira{Project: "NO"}, jiratest.Project{}, map[string]string{jira.WhatProject: "project NO not found"}, "help.jira.project"},
		"unseen project":    {spec.HelpJira{Project: "MD"}, jiratest.Project{Denied: []string{"BROWSE_PROJECTS"}}, map[string]string{jira.WhatProject: "project MD not found"}, "Browse Projects"},
		"moved project":     {spec.HelpJira{Project: "OLD"}, jiratest.Project{Was: "OLD"}, map[string]string{jira.WhatProject: "whose key is now MD"}, "write MD into help.jira.project"},
		"no permissions":    {spec.HelpJira{Project: "MD"}, jiratest.Project{Denied: []string{"CREATE_ISSUES", "ADD_COMMENTS"}}, map[string]string{jira.WhatPermissions: "lacks Add Comments, Create Issues in project MD"}, "permissions in project MD"},
		"no type":           {spec.HelpJira{Project: "MD", Type: "Taks"}, jiratest.Project{Types: []jiratest.Type{{Name: "Task"}}}, map[string]string{jira.WhatType: `did you mean "Task"?; it has Task`}, "help.jira.type"},
		"a field to fill":   {spec.HelpJira{Project: "MD"}, jiratest.Project{Types: []jiratest.Type{{Name: "Bug", Fields: []jiratest.Field{site}}}}, map[string]string{jira.WhatFields: `"Site" (customfield_10010), which is not set; it takes Berlin, Bonn`}, "help.jira.fields.customfield_10010"},
		"another value": {
			spec.HelpJira{Project: "MD", Fields: map[string]any{"customfield_10010": []any{map[string]any{"value": "Brelin"}}}},
			jiratest.Project{Types: []jiratest.Type{{Name: "Bug", Fields: []jiratest.Field{site}}}},
			map[string]string{jira.WhatFields: `has no value "Brelin"; did you mean "Berlin"?`},
			"help.jira.fields.customfield_10010",
		},
		"a field too many": {spec.HelpJira{Project: "MD", Fields: map[string]any{"customfield_9": "x"}}, jiratest.Project{}, map[string]string{jira.WhatFields: "has no field customfield_9"}, "remove it from help.jira"},
		"no labels":        {spec.HelpJira{Project: "MD"}, jiratest.Project{Types: []jiratest.Type{{Name: "Bug", Without: []string{"labels"}}}}, map[string]string{jira.WhatFields: "has no field labels"}, "finds its tickets by a label"},
		"no component":     {spec.HelpJira{Project: "MD", Components: []string{"Backend"}}, jiratest.Project{Components: []string{"Back end"}}, map[string]string{jira.WhatComponents: `no "Backend"; did you mean "Back end"?`}, "help.jira.components"},
		"no priority":      {spec.HelpJira{Project: "MD", Priorities: map[failures.Category]string{failures.Auth: "P1"}}, jiratest.Project{Priorities: []string{"High"}}, map[string]string{jira.WhatPriorities: `no "P1"; it has High`}, "help.jira.priorities"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, o jiratest.Options) {
				p := tt.project
				p.Key = "MD"
				if p.Types == nil {
					p.Types = []jiratest.Type{{Name: "Bug"}}
				}
				o.Projects = []jiratest.Project{p}
				s, c := open(t, o)
				wrong := map[string]string{}
				for _, f := range c.Check(t.Context(), tt.how) {
					require.NotEmpty(t, f.Message)
					if !f.OK {
						wrong[f.What] = f.Message
						require.Contains(t, f.Remedy, tt.fix)
					}
				}
				require.Len(t, wrong, len(tt.bad), "%v", wrong)
				for what, message := range tt.bad {
					require.Contains(t, wrong[what], message)
				}
				for _, r := range s.Requests() {
					require.Equal(t, http.MethodGet, r.Method, "nothing is created")
				}
			})
		})
	}
}

func TestCheckReadsEveryPage(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, o jiratest.Options) {
		p := jiratest.Project{Key: "MD"}
		for range 130 {
			p.Types = append(p.Types, jiratest.Type{Name: "Type " + strings.Repeat("x", len(p.Types))})
		}
		last := jiratest.Type{Name: "Bug"}
		for range 230 {
			last.Fields = append(last.Fields, jiratest.Field{ID: "customfield_" + strings.Repeat("1", len(last.Fields)+1), Name: "F"})
		}
		last.Fields = append(last.Fields, jiratest.Field{ID: "customfield_2", Name: "Last", Required: true})
		p.Types = append(p.Types, last)
		o.Projects = []jiratest.Project{p}
		_, c := open(t, o)
		findings := c.Check(t.Context(), spec.HelpJira{Project: "MD"})
		require.Contains(t, findings[len(findings)-1].Message, `"Last" (customfield_2)`)
	})
}

func TestCheckSaysWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault   jiratest.Fault
		what    string
		message string
	}{
		"who":         {jiratest.Refusal(401, nil, "No."), jira.WhatCredentials, "JIRA_TOKEN"},
		"down":        {jiratest.Fault{Status: 503}, jira.WhatCredentials, "503"},
		"project":     {jiratest.Refusal(500, nil, "Oh").On("GET", "/project/MD"), jira.WhatProject, "500"},
		"permissions": {jiratest.Refusal(404, nil, "What?").On("GET", "/mypermissions"), jira.WhatPermissions, "What?"},
		"types":       {jiratest.Page(404, "Oops").On("GET", "/issuetypes"), jira.WhatType, "Oops"},
		"fields":      {jiratest.Refusal(403, nil, "No.").On("GET", "/issuetypes/1"), jira.WhatFields, "No."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := open(t, jiratest.Options{})
			s.Fail(tt.fault)
			findings := c.Check(t.Context(), spec.HelpJira{Project: "MD"})
			last := findings[len(findings)-1]
			require.False(t, last.OK)
			require.Equal(t, tt.what, last.What)
			require.Contains(t, last.Message, tt.message)
			for _, f := range findings[:len(findings)-1] {
				require.True(t, f.OK, f.Message)
			}
		})
	}
}
