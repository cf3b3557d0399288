// Package transcript is the text form of what an agent does: what it says, the tools
// that it calls, and what they bring, one item after the other, written as it happens, and taken apart for pages.
//
//	-- turn 3
//	? user: Bring the documents up to date.
//	~ The tests say what is missing.
//	I look at the tests first.
//	> edit docs/a.md
//	  │ - TODO
//	  │ + DONE
//	< edit docs/a.md: Wrote docs/a.md: 18 bytes.
//	! the provider failed; asking again
//
// A line that begins with > is a tool call, with < what it brought, with ! a warning;
// -- marks the turns or calls of a model, ? what it is asked, and ~ what it thinks. Lines
// that begin with two spaces and a bar belong to the item above them. What the agent says has
// no mark. An agent may print lines of any form: a line that is mistaken for another kind
// is shown all the same.
//
// Start reading in writer.go:
//
//	writer.go  how long an item and its first line may be, that secrets are masked, and how the arguments of a tool call are
//	           shown
//	brief.go   how many lines of an item are shown in brief, and how long these are; fold.go: which items of an agent program
//	           are shown as one line
//	items.go   the kinds of items that the pages show, how long a shown line may be, which lines a window has, and what a search
//	           finds
package transcript
