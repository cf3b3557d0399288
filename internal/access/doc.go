// Package access decides who may do what. An [Actor] travels in the context; whatever
// changes or shows something asks [Check] first. Without an actor everything is denied.
package access
