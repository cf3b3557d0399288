// Package doctor checks everything that a session needs: this program
// and those that it starts, the store and its disk space, Temporal and its namespace, clocks,
// workers, breakers, a worker file. Each finding has a remedy, and a check that
// hangs is a finding and does not stop the others. It changes nothing, and fixes nothing:
// it writes files to the store that it removes again, and polls one empty
// task queue.
package doctor
