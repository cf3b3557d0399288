// Package access decides who may do what, and keeps the audit log of who did. An [Actor]
// travels in the context; whatever changes or shows something asks [Check] or [Audit.Change]
// first. Without an actor everything is denied.
//
//	audit/<date>.jsonl    the audit log of a day, by UTC: a line for each event or outcome
package access
