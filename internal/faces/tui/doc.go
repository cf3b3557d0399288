// Package tui draws a session for a terminal, and updates the drawing while a person looks at it. It gets all data as messages
// and from a [Source], and uses neither Temporal nor the store itself.
//
// Start reading in model.go, which takes messages and keys, and picture.go, which draws:
//
//	model.go    which keys move and quit, and when the program ends; keys.go: the keys that the footer names
//	picture.go  which parts a drawing has, and what a terminal with few lines leaves out
//	rows.go     from which width on there are columns for tokens, money and words of agents, and what a row says of an assignment
//	graph.go    which phases are drawn side by side as parallel, and the lines that show how the work flows
//	answer.go   the keys that answer a request or raise a budget, what is asked for each, and how many lines of the result are
//	            shown
//	session.go  the data of a drawing, and which assignment is selected until a person selects one
//	theme.go    the sign, word and colour of each state; text.go: how lines are cut, aligned and folded
package tui
