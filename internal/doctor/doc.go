// Package doctor examines whether everything that a session needs is there: this program
// and those that it starts, the store and its room, Temporal and its namespace, clocks,
// workers, breakers, a worker file. What it finds comes with its remedy, and a check that
// hangs is a finding and not the end of the rest. It changes nothing, and mends nothing:
// it writes files into the store that it removes again, and asks Temporal for work once
// where there is none.
package doctor
