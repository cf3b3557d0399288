// Package tui draws a session for a terminal, and keeps the drawing up to date
// while a person looks at it. It gets everything that it shows as messages and
// from a [Source], and asks neither Temporal nor the store itself.
package tui
