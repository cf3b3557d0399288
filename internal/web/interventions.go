package web

import (
	"cmp"
	"time"
	"unicode/utf8"

	"github.com/maestro-hive/maestro/internal/safetext"
	"github.com/maestro-hive/maestro/internal/sessionstatus"
	"github.com/maestro-hive/maestro/internal/terminal"
	"github.com/maestro-hive/maestro/internal/textfmt"
)

// InterventionRow is a row of a session's interventions.
type InterventionRow struct {
	At       time.Time
	What, By string
	// Of is what it is about, and URL the page of it; empty: there is none.
	Of, URL string
	// Text is the note or the reasons in one line; Rest is all of a longer text, else empty.
	Text, Rest string
}

// shownText is how much of an intervention's text is shown before a click, in characters.
const shownText = 200

// interventionRows are the rows of a session's interventions, oldest first.
func interventionRows(sessionID string, all []sessionstatus.Intervention) []InterventionRow {
	var rows []InterventionRow
	for _, i := range all {
		row := InterventionRow{At: i.At, By: cmp.Or(i.By, "unknown"), Of: i.Subject(), What: i.Action.Rule().Label, Text: safetext.Clip(i.Text, shownText)}
		switch {
		case i.Action == sessionstatus.Raise:
			row.What = "Raise of " + terminal.Amount(i.Added)
		case i.Action == sessionstatus.SendBack:
			row.What = "Send back"
		case i.Left > 0:
			row.What += ", " + textfmt.Count(i.Left, "approval") + " to go"
		}
		switch {
		case i.Phase != "" && i.Persona != "":
			row.URL = assignmentURL(sessionID, i.Phase, i.Persona)
		case i.Phase != "":
			row.URL = phaseURL(sessionID, i.Phase)
		}
		if utf8.RuneCountInString(safetext.Line(i.Text)) > shownText {
			row.Rest = i.Text
		}
		rows = append(rows, row)
	}
	return rows
}
