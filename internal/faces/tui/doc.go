// Package tui draws a session for a terminal, and updates the drawing while a person looks at it.
// It gets all data as messages and from a [Source], and uses neither Temporal nor the store itself.
package tui
