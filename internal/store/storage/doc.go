// Package storage has the files of a store beside its database: the mirror's, which are replaced as a whole, and blobs, which
// are immutable. They are in a [Directory] or in a [Bucket], which several processes may use at once.
//
// A key is a relative path of names that are separated by slashes; callers check what they make it of. They compare the errors
// below with errors.Is. Any other error means that the storage cannot be used at the moment.
//
// Start reading in storage.go and blobs.go, which say what files and blobs are. First the directory, then the bucket:
//
//	storage.go       what the files of a mirror can do, and the largest one; blobs.go: what a storage of blobs can do, and
//	                 the keys of blobs
//	directory.go     the files of a mirror in a directory; create.go: which directory a store may be made in, and when a
//	                 temporary file is old
//	blobfiles.go     the blobs in a directory: when one is marked as used, is removed by a sweep, or is moved as damaged;
//	                 batch.go: that blobs are visible together
//	files.go         that a file is replaced as a whole and survives a power loss; sync_linux.go, sync_darwin.go: the same
//	                 for many; copy.go: digests of what is copied
//	lock.go          how long a lock lasts, and the one between sweeps and users of blobs; reserve.go: the space that is kept
//	                 for a full disk
//	bucket.go        a bucket: that it is the database's own, and how large the copies on a host may be; bucket_mirror.go:
//	                 the mirror in it
//	bucket_write.go  which blobs share an object, how large that is, and how many are sent at a time
//	fetch.go         how blobs are read into the copies on a host, when one counts as damaged, and which copies are removed
//	bucket_sweep.go  after what time an object without a blob is removed; how blobs are verified in the bucket
//	remote.go        how long a request may take, how often it is tried, and when the bucket counts as unavailable
package storage
