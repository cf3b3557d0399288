package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Approval says who has to approve a finished phase: true for any one person, or a mapping. With
// a mapping that needs by or a count above 1, the person who started the session cannot approve
// alone.
type Approval struct {
	// By lists groups. Only their members can approve or reject. Default: everybody who may
	// approve phases of the team.
	By []string `json:"by,omitempty" yaml:"by,omitempty" jsonschema:"format=group,minItems=1,maxItems=20,maxLength=200,uniqueItems=true" example:"[leads]"`
	// Count is the number of different persons who have to approve. Two tokens of one person
	// are one person.
	Count int `json:"count,omitempty" yaml:"count,omitempty" jsonschema:"minimum=1,maximum=10"`
}

// Wanted reports whether an approval is required.
func (a Approval) Wanted() bool { return a.Count > 0 || len(a.By) > 0 }

// Ruled reports whether more is required than the approval of any one person.
func (a Approval) Ruled() bool { return a.Count > 1 || len(a.By) > 0 }

// IsZero reports whether no approval is required.
func (a Approval) IsZero() bool { return !a.Wanted() }

// String describes whose approval is required, like "2 persons of leads or security".
func (a Approval) String() string {
	who := textfmt.Count(max(a.Count, 1), "person")
	if len(a.By) > 0 {
		who += " of " + strings.Join(a.By[:len(a.By)-1], ", ")
		if len(a.By) > 1 {
			who += " or "
		}
		who += a.By[len(a.By)-1]
	}
	return who
}

// resolved fills in the number of persons.
func (a Approval) resolved() Approval {
	if a.Wanted() {
		setDefault(&a.Count, 1)
	}
	return a
}

// approvalFields is an Approval that is written as a mapping.
type approvalFields Approval

// MarshalJSON writes the shortest form of a team file.
func (a Approval) MarshalJSON() ([]byte, error) {
	if !a.Ruled() {
		return json.Marshal(a.Wanted())
	}
	return json.Marshal(approvalFields(a))
}

// UnmarshalText reads true or false.
func (a *Approval) UnmarshalText(text []byte) error {
	*a = Approval{}
	if wanted, _ := strconv.ParseBool(string(text)); wanted {
		a.Count = 1
	}
	return nil
}

// UnmarshalJSON reads the forms of a team file.
func (a *Approval) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, new(bool)) == nil {
		return a.UnmarshalText(bytes.TrimSpace(data))
	}
	var fields approvalFields
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("approve is %s; it must be true, false or a mapping with by or count",
			textfmt.Shorten(string(bytes.TrimSpace(data)), 80))
	}
	*a = Approval(fields).resolved()
	return nil
}
