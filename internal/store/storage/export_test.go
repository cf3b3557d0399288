package storage

// Cache has the copies of blobs on this host.
func (b *Bucket) Cache() *Directory { return b.cache }
