package index

// LockFile takes the lock of who opens or replaces the file.
var LockFile = lockFile
