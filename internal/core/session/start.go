package session

import "github.com/maestro-hive/maestro/internal/core/spec"

// Start is what a run of a session is started with, from the command to the admission.
type Start struct {
	// Store is the id of the store that holds the blobs below.
	Store string `json:"store"`
	// Team is the blob of the resolved team.
	Team spec.Digest `json:"team"`
	// Requirement is the blob of the requirement's text.
	Requirement spec.Digest `json:"requirement"`
	// Workspace is the manifest that the session starts from.
	Workspace spec.Digest `json:"workspace"`
	// Run counts the session's Temporal runs; zero means 1.
	Run int `json:"run,omitempty"`
	// Course selects the part of the team's work to do.
	Course Course `json:"course,omitzero"`
	// Base is the checkpoint that the session continues from; empty for a new one.
	Base spec.Digest `json:"base,omitempty"`
	// Origin is set for a fork: then Base is a checkpoint of another session.
	Origin *Origin `json:"origin,omitempty"`
	// ReportTo is the key of the ticket that the requirement came from.
	ReportTo string `json:"report_to,omitempty"`
	// Labels are the session's, by key.
	Labels map[string]string `json:"labels,omitempty"`
	Starter
}
