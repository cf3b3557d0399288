package store

// Seal lets tests write documents as the store does, with content of their own.
func Seal(v any) ([]byte, error) { return seal(v) }
