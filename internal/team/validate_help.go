package team

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
)

// What a team file may say of its tickets. Names are as long as Jira lets them be.
const (
	// TicketLabelPrefix begins the labels that Maestro finds its tickets by.
	TicketLabelPrefix = "maestro-"

	maxJiraName   = 255
	maxJiraFields = 16 * 1024 // bytes of JSON
	maxGiveUp     = Duration(365 * 24 * time.Hour)
	minGiveUp     = Duration(time.Second)
)

var (
	projectKey  = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	jiraFieldID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
)

// jiraOwn says which key of a team file sets a field of tickets that is not among
// the further ones; empty: Maestro sets it.
var jiraOwn = map[string]string{
	"project": "project", "issuetype": "type", "labels": "labels", "components": "components", "priority": "priorities",
	"summary": "", "description": "",
}

// asks tells whether a session of the team, as its file has it, may wait for a person.
func (t Team) asks() bool {
	return t.Help.Mode != HelpFail || t.Retry.WaitsOut() > 0 && t.Retry.OnOutage != OutageFail || t.Budget.OnExceeded == OnExceededAsk ||
		slices.ContainsFunc(t.Phases, func(p Phase) bool { return p.Approve })
}

func (v *validator) help() {
	h := v.team.Help
	switch h.Mode {
	case "", HelpFail, HelpAsk:
	default:
		v.add("$.help.mode", "is %q; write ask or fail%s", Shorten(string(h.Mode), 80),
			DidYouMean(string(h.Mode), []string{string(HelpAsk), string(HelpFail)}))
	}
	if h.Jira != nil {
		v.tickets("$.help.jira", *h.Jira)
	}
	switch {
	case h.GiveUpAfter == 0:
	case !v.team.asks():
		v.add("$.help.give_up_after", "has nothing to end: a session waits for a person with `mode: ask`, with a budget's `on_exceeded: ask`, for a phase with `approve: true`, or for a provider with `on_outage: wait`; leave it out")
	default:
		v.duration("$.help.give_up_after", h.GiveUpAfter, minGiveUp, maxGiveUp)
	}
}

func (v *validator) tickets(path string, j HelpJira) {
	switch {
	case j.Project == "":
		v.add(path+".project", "is missing; give the key of the Jira project, like MD")
	case !projectKey.MatchString(j.Project):
		v.add(path+".project", "is %q, which is no project's key; write the capitals before the number of the project's tickets, like MD%s",
			Shorten(j.Project, 80), meantKey(j.Project))
	case len(j.Project) > maxJiraName:
		v.add(path+".project", "has %d characters; at most %d are allowed", len(j.Project), maxJiraName)
	}
	if j.Type != "" {
		v.check(path+".type", checkJiraName(j.Type))
	}
	v.list(path+".labels", j.Labels, checkLabel)
	v.list(path+".components", j.Components, checkJiraName)
	for _, c := range slices.Sorted(maps.Keys(j.Priorities)) {
		below := FieldPath(path+".priorities", string(c))
		if !slices.Contains(Categories(), c) {
			known := make([]string, 0, len(Categories()))
			for _, k := range Categories() {
				known = append(known, string(k))
			}
			v.add(below, "is no failure category%s; there are %s", DidYouMean(string(c), known), strings.Join(known, ", "))
			continue
		}
		v.check(below, checkJiraName(j.Priorities[c]))
	}
	v.jiraFields(path+".fields", j.Fields)
}

func (v *validator) jiraFields(path string, fields map[string]any) {
	for _, id := range slices.Sorted(maps.Keys(fields)) {
		below := FieldPath(path, id)
		key, own := jiraOwn[id]
		switch {
		case own && key == "":
			v.add(below, "is what Maestro writes itself; leave it out")
		case own:
			v.add(below, "is set by help.jira.%s; leave it out here", key)
		case !jiraFieldID.MatchString(id):
			v.add(below, "is no field's id; write it as Jira's API does, like customfield_10010")
		}
	}
	if data, err := json.Marshal(fields); err != nil {
		v.add(path, "is no plain data: %s", err)
	} else if len(data) > maxJiraFields {
		v.add(path, "has %d bytes as JSON; at most %d are allowed", len(data), maxJiraFields)
	}
}

// meantKey guesses a key from one in small letters or from a ticket's key.
func meantKey(key string) string {
	project, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(key)), "-")
	if projectKey.MatchString(project) && len(project) <= 20 {
		return fmt.Sprintf("; did you mean %q?", project)
	}
	return ""
}

func checkJiraName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return fmt.Errorf("is empty; give the name as Jira shows it")
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%q has a character in it that no name in Jira has", Shorten(name, 80))
	case len([]rune(name)) > maxJiraName:
		return fmt.Errorf("has %d characters; at most %d are allowed", len([]rune(name)), maxJiraName)
	}
	return nil
}

func checkLabel(label string) error {
	switch {
	case strings.ContainsFunc(label, unicode.IsSpace):
		return fmt.Errorf("%q has a space in it, which no label in Jira can have; write %q", Shorten(label, 80),
			Shorten(strings.Join(strings.Fields(label), "-"), 80))
	case strings.HasPrefix(strings.ToLower(label), TicketLabelPrefix):
		return fmt.Errorf("%q begins with %s, which is how Maestro finds its own tickets; choose another label", Shorten(label, 80), TicketLabelPrefix)
	}
	return checkJiraName(label)
}
