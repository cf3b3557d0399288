package session

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// AnyGroup is the group of an answer of a local user: whoever can write the store's files counts as
// a member of every group.
const AnyGroup = "*"

// Quorum defines whose approvals a request needs, and has those so far.
type Quorum struct {
	// Count is how many different persons have to approve, and By lists the groups of which they
	// have to be members; empty: any person can approve.
	Count int      `json:"count"`
	By    []string `json:"by,omitempty"`
	// Starter is the person who started the session, and cannot approve alone; StarterID identifies
	// the person under another name.
	Starter   string `json:"starter,omitempty"`
	StarterID string `json:"starter_id,omitempty"`
	// Approvals are those so far, oldest first.
	Approvals []Approval `json:"approvals"`
}

// Approval is the approval of one person.
type Approval struct {
	Person string `json:"person"`
	// PersonID identifies the person under another name; empty: only the name does.
	PersonID string `json:"person_id,omitempty"`
	// Group is the group that the person is a member of; empty: none is needed.
	Group string    `json:"group,omitempty"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at"`
}

// maxPerson limits a person's name in a sentence, in bytes.
const maxPerson = 100

// NewQuorum is the quorum of a finished phase, with the approvals that are valid for its work; nil:
// any one person approves. An approval by a member of another group does not count.
func NewQuorum(a spec.Approval, starter, starterID string, before []Approval) *Quorum {
	if !a.Ruled() {
		return nil
	}
	q := &Quorum{Count: a.Count, By: a.By, Starter: starter, StarterID: starterID, Approvals: []Approval{}}
	for _, b := range before {
		if q.Refuses(Answer{Action: AnswerApprove, Person: b.Person, PersonID: b.PersonID, Group: b.Group}) == "" {
			q.Approvals = append(q.Approvals, b)
		}
	}
	return q
}

// Left is how many more persons have to approve.
func (q *Quorum) Left() int { return max(q.Count-len(q.Approvals), 0) }

// Admits reports whether members of a group may answer.
func (q *Quorum) Admits(group string) bool {
	return len(q.By) == 0 || group == AnyGroup || slices.Contains(q.By, group)
}

// SamePerson reports whether two answers are by one person.
func (a Answer) SamePerson(b Answer) bool { return a.isBy(b.Person, b.PersonID) }

// isBy reports whether an answer is by a person. Persons with the same name count as one, because
// not all of them have an id.
func (a Answer) isBy(name, id string) bool { return a.Person == name || id != "" && a.PersonID == id }

// Refuses is the reason why an answer does not count; empty: it counts.
func (q *Quorum) Refuses(a Answer) string {
	who := textfmt.Shorten(a.Person, maxPerson)
	switch {
	case a.Person == "":
		return fmt.Sprintf("it needs %s, and the person who answers is unknown; use the dashboard, the API or `maestro %s`", q.rule(),
			a.Action)
	case !q.Admits(a.Group):
		return fmt.Sprintf("%s is not a member of %s", who, q.groups())
	case a.Action != AnswerApprove:
		return ""
	case slices.ContainsFunc(q.Approvals, func(b Approval) bool { return a.isBy(b.Person, b.PersonID) }):
		return fmt.Sprintf("%s has approved already; it needs another person", who)
	case q.Count == 1 && a.isBy(q.Starter, q.StarterID):
		return who + " started the session; it needs another person"
	}
	return ""
}

// With is the quorum with one more approval.
func (q *Quorum) With(a Answer) *Quorum {
	more := *q
	more.Approvals = append(slices.Clone(q.Approvals), Approval{
		Person: a.Person, PersonID: a.PersonID, Group: a.Group, Note: textfmt.Shorten(a.Note, MaxMessage), At: a.At,
	})
	return &more
}

func (q *Quorum) rule() string { return spec.Approval{Count: q.Count, By: q.By}.String() }

func (q *Quorum) groups() string {
	_, groups, _ := strings.Cut(q.rule(), " of ")
	return groups
}

// String lists who has approved and whose approval is needed, like "1 of 2 approvals: ana 10:02
// UTC; needs 1 person of leads".
func (q *Quorum) String() string {
	text := fmt.Sprintf("%d of %s", len(q.Approvals), textfmt.Count(q.Count, "approval"))
	for i, a := range q.Approvals {
		text += fmt.Sprintf("%s %s %s", []string{":", ","}[min(i, 1)], textfmt.Shorten(a.Person, maxPerson),
			a.At.UTC().Format("15:04 UTC"))
	}
	if left := q.Left(); left > 0 {
		text += "; needs " + spec.Approval{Count: left, By: q.By}.String()
	}
	if q.Count == 1 && q.Starter != "" {
		text += " other than " + textfmt.Shorten(q.Starter, maxPerson)
	}
	return text
}
