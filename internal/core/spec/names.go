package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// Digest names content by its SHA-256, in lower-case hex. The empty Digest
// names nothing.
type Digest string

// DigestOf returns the digest of data.
func DigestOf(data []byte) Digest {
	sum := sha256.Sum256(data)
	return Digest(hex.EncodeToString(sum[:]))
}

// DigestOfJSON returns the digest of v's JSON, which is the same for the same value: fields come in
// their order and map keys sorted. v is plain data, so encoding cannot fail.
func DigestOfJSON(v any) Digest {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("spec: a digest of what is not plain data: %v", err))
	}
	return DigestOf(data)
}

// NamePattern is the pattern of names of phases, personas, agents and checks.
const NamePattern = `^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`

var (
	namePattern     = regexp.MustCompile(NamePattern)
	sessionPattern  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?$`)
	decisionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// ReservedPhase is the name of the checkpoint before the first phase, which no
// phase may have.
const ReservedPhase = "init"

// ReservedPersona names the activities that merge a phase, so no persona may have it.
const ReservedPersona = "merge"

// CheckName rejects names of phases, personas, agents and checks that are not safe as file names
// and queue names.
func CheckName(name string) error {
	return check(namePattern, "name", name, "1 to 63 letters, digits, - or _, and start with a letter or digit")
}

// CheckSession rejects session ids that are not safe as file names.
func CheckSession(id string) error {
	return check(sessionPattern, "session id", id,
		"1 to 128 letters, digits, -, _ or ., start with a letter or digit and not end with a dot")
}

// CheckDecision rejects decision names that are not plain identifiers.
func CheckDecision(name string) error {
	return check(decisionPattern, "decision name", name, "1 to 64 letters, digits, -, _ or ., and start with a letter or digit")
}

func check(pattern *regexp.Regexp, what, name, must string) error {
	if pattern.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%q is not a usable %s: it must be %s", textfmt.Shorten(name, 150), what, must)
}

// Valid reports whether d has the form of a SHA-256 in hex.
func (d Digest) Valid() bool {
	if len(d) != 64 {
		return false
	}
	for i := range len(d) {
		if c := d[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Short is the digest's first 12 digits, for people.
func (d Digest) Short() string {
	if len(d) > 12 {
		return string(d[:12])
	}
	return string(d)
}

// WorkflowQueue is the task queue of a store's workflows.
func WorkflowQueue(store string) string { return "maestro-" + store }

// AgentQueue is the task queue of one agent's rounds and checks.
func AgentQueue(store, agent string) string { return WorkflowQueue(store) + "." + agent }

// TicketQueue is the task queue of the activities that call the store's ticket system, and
// WebhookQueue that of those that call its webhook. No agent's name has a colon.
func TicketQueue(store string) string { return WorkflowQueue(store) + ":tickets" }

// WebhookQueue is described with [TicketQueue].
func WebhookQueue(store string) string { return WorkflowQueue(store) + ":webhook" }

// AssignmentID names one persona's work in one phase.
type AssignmentID struct {
	Phase   string `json:"phase"`
	Persona string `json:"persona"`
}

// String formats the id as phase/persona, as commands take it.
func (a AssignmentID) String() string { return a.Phase + "/" + a.Persona }

// Check rejects an id whose parts are not names.
func (a AssignmentID) Check() error {
	if err := CheckName(a.Phase); err != nil {
		return fmt.Errorf("phase: %w", err)
	}
	if err := CheckName(a.Persona); err != nil {
		return fmt.Errorf("persona: %w", err)
	}
	return nil
}

// ParseAssignmentID reads what [AssignmentID.String] writes.
func ParseAssignmentID(s string) (AssignmentID, error) {
	phase, persona, ok := strings.Cut(s, "/")
	if !ok || CheckName(phase) != nil || CheckName(persona) != nil {
		return AssignmentID{}, fmt.Errorf("%q is not an assignment; use PHASE/PERSONA", textfmt.Shorten(s, 80))
	}
	return AssignmentID{Phase: phase, Persona: persona}, nil
}
