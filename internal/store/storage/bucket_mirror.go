package storage

import (
	"context"
	"path"
	"slices"
	"strings"

	"gocloud.dev/blob"
)

var _ Files = (*Bucket)(nil)

// mirrored is the object of a file, whose key begins with the directory of the mirror.
func mirrored(key string) string {
	_, rest, _ := strings.Cut(key, "/")
	return "mirror/" + rest
}

// Read implements [Files]. The copy on this host may be older, if another host wrote the file later.
func (b *Bucket) Read(ctx context.Context, key string) ([]byte, error) {
	return b.readObject(ctx, mirrored(key))
}

// Replace implements [Files]: the object, and then the copy on this host. Of two hosts, the last one counts.
func (b *Bucket) Replace(ctx context.Context, key string, data []byte) error {
	if err := b.putObject(ctx, mirrored(key), data); err != nil {
		return err
	}
	return b.cache.Replace(ctx, key, data)
}

// Remove implements [Files].
func (b *Bucket) Remove(ctx context.Context, key string) error {
	if err := b.remote.delete(ctx, mirrored(key)); err != nil {
		return err
	}
	return b.cache.Remove(ctx, key)
}

// List implements [Files].
func (b *Bucket) List(ctx context.Context, key string) (names []string, err error) {
	dir := mirrored(key) + "/"
	err = b.remote.list(ctx, dir, func(page []*blob.ListObject) error {
		for _, o := range page {
			if name := strings.TrimPrefix(o.Key, dir); name == path.Base(o.Key) {
				names = append(names, name)
			}
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}
