// Package terminal says how things are written for people at terminals: colours by
// their meaning, columns, numbers, amounts, times, and text of any origin that is only
// seen. It makes text of what it is given; where text goes is its callers' business,
// and what takes the whole screen is drawn by internal/faces/tui.
//
// Start reading in table.go:
//
//	colour.go   the colour of each state of a session
//	table.go    how columns are aligned, which are left out and how far the last one is cut where the terminal is narrow
//	figures.go  how numbers, amounts of tokens and money, durations, ages and times are written
//	prose.go    how wide text for people is, where it is wrapped, and how names are listed
package terminal
