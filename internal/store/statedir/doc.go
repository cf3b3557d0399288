// Package statedir finds the state directory and looks whose it is. It opens nothing in it.
//
// Start reading in statedir.go, at Find:
//
//	statedir.go  which directory has the state: a flag, $MAESTRO_STATE_DIR, /var/maestro/state, or one below the user's HOME
//	owner.go     that the state directory of another user is refused, and when a process of root continues as its owner
package statedir
