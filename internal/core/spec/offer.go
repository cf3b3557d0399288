package spec

import (
	"fmt"
	"strings"
	"time"
)

// Offer is what a live worker publishes in its store: its capabilities. It holds no secrets and no
// commands, only digests of their definitions.
type Offer struct {
	Worker   string                  `json:"-"`
	Identity string                  `json:"identity"`
	Host     string                  `json:"-"`
	PID      int                     `json:"pid"`
	Version  string                  `json:"-"`
	Agents   map[string]OfferedAgent `json:"agents"`
	Checks   map[string]Digest       `json:"checks"`
	// Jira and Webhook: the worker makes tickets, and calls a webhook.
	Jira    bool `json:"jira,omitempty"`
	Webhook bool `json:"webhook,omitempty"`
	// WebUI is the address of Temporal's Web UI; empty where it is not known.
	WebUI string `json:"web_ui,omitempty"`
	// Isolation is how its agents and checks are separated from the host.
	Isolation Isolation `json:"isolation"`
	// Work is the directory on the host below which its agents work.
	Work string `json:"work,omitempty"`
	// Disk is the free space on its host.
	Disk      Disk      `json:"disk"`
	StartedAt time.Time `json:"-"`
	RenewedAt time.Time `json:"-"`
}

// OfferedAgent is an agent in an offer.
type OfferedAgent struct {
	Kind        string `json:"kind"`
	Model       string `json:"model,omitempty"`
	Concurrency int    `json:"concurrency"`
	Digest      Digest `json:"digest"`
	// Breaker names the agent's circuit breaker.
	Breaker string `json:"breaker,omitempty"`
	// Conversation is where the agent keeps its conversation.
	Conversation Conversation `json:"conversation,omitempty"`
	// Fallback names the agent that may work in this one's place.
	Fallback string `json:"fallback,omitempty"`
	// Gateway lists the providers that it reaches through the worker's gateway.
	Gateway []string `json:"gateway,omitempty"`
	// Network is what it can reach in a room: host, none, or a list of hosts; empty without a room.
	Network []string `json:"network,omitempty"`
	// Unpriced: it uses tokens, and no prices are configured.
	Unpriced bool `json:"unpriced,omitempty"`
}

// Isolation is how a worker separates agents and checks from its host.
type Isolation struct {
	// Rooms: each works in a room.
	Rooms bool `json:"rooms"`
	// WithoutRooms is the reason why there are no rooms, and what to change, if the worker file
	// permits rooms.
	WithoutRooms string `json:"without_rooms,omitempty"`
	// WithoutLayers is the reason why the trees of rooms are copied, if layers are permitted.
	WithoutLayers string `json:"without_layers,omitempty"`
	// WithoutShim is the reason why the worker's own program supervises each process instead of the
	// small shim program, which starts faster.
	WithoutShim string `json:"without_shim,omitempty"`
	// Landlock is the version of the kernel's Landlock that restricts processes without rooms;
	// zero: they are not restricted.
	Landlock int `json:"landlock,omitempty"`
	// User is the user of the processes on the host.
	User string `json:"user"`
	// Limits are what each attempt may use, and what enforces them.
	Limits []Limit `json:"limits"`
}

// Disk is the free space of a worker's disk at the last renewal of its offer.
type Disk struct {
	FreeBytes int64 `json:"free_bytes"`
	// Full: so little is free that the worker removes what can be made again.
	Full bool `json:"full,omitempty"`
}

// Limit is what an attempt may use of a resource, and what enforces it.
type Limit struct {
	Of   string `json:"of"`
	Most string `json:"most"`
	By   string `json:"by"`
}

func (l Limit) String() string { return strings.TrimSpace(l.Of+" "+l.Most) + " (" + l.By + ")" }

// String is the isolation in a few words.
func (i Isolation) String() string {
	switch {
	case i.Rooms:
		return "rooms"
	case i.Landlock > 0:
		return fmt.Sprintf("no rooms, Landlock %d", i.Landlock)
	}
	return "no rooms"
}

// Conversation is where an agent's conversation is stored, so that it can continue.
type Conversation string

// The places of conversations. An agent without one starts each attempt from the beginning.
const (
	// InCalls: in the stored calls. The agent repeats the conversation from its beginning, and
	// pays only for new calls.
	InCalls Conversation = "calls"
	// InDirectory: in its HOME and working directory.
	InDirectory Conversation = "directory"
)

// OfferLifetime is how long an offer is valid after its last renewal; OfferRenewal is how often a
// worker renews it. A worker that has not renewed it for OfferForgotten is considered gone: another
// one has its work, under another name.
const (
	OfferLifetime  = 30 * time.Second
	OfferRenewal   = 5 * time.Second
	OfferForgotten = 24 * time.Hour
)

// Live reports whether the offer is still valid, so that its worker counts as live.
func (o Offer) Live(now time.Time) bool { return now.Sub(o.RenewedAt) < OfferLifetime }
