package index

// TryFileAgain lets the next refresh try the file again.
func (x *Index) TryFileAgain() { x.tryFile.Store(true) }

// LockFile takes the lock of who opens or replaces the file.
var LockFile = lockFile
