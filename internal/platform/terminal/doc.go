// Package terminal says how things are written for people at terminals: colours by
// their meaning, columns, numbers, amounts, times, and text of any origin that is only
// seen. It makes text of what it is given; where text goes is its callers' business,
// and what takes the whole screen is drawn by internal/faces/tui.
package terminal
