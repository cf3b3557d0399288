package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/fileblob"  // file://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/s3blob"    // s3://
	"gocloud.dev/gcerrors"

	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/platform/retryafter"
)

// ErrUnavailable means that the bucket cannot be used at the moment. Callers wait and try again.
var ErrUnavailable = errors.New("the bucket cannot be used; check its address, the credentials and the network")

const (
	// requestTime is the time of a request without the time that its bytes take at slowest bytes a second.
	requestTime = 30 * time.Second
	slowest     = 256 << 10
	// requestTries is how often a request is sent, with a pause that begins at requestPause and doubles.
	requestTries = 5
	requestPause = 100 * time.Millisecond
	// partSize is the size of the parts in which large objects are sent. A smaller object is sent in one request.
	partSize = 16 << 20
	// listPage is how many objects are listed at a time.
	listPage = 1000
)

// remote is a bucket. It bounds each request in time and repeats it: names are unique and their content never changes, so every
// request may arrive twice, and late.
type remote struct {
	bucket *blob.Bucket
	// dir is the directory of a bucket that is one.
	dir string
}

// openRemote opens a bucket by its address, like s3://bucket/prefix?region=eu-west-1. Its path is a prefix, or a directory.
func openRemote(ctx context.Context, address string) (*remote, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return nil, fmt.Errorf("%.80q is not the address of a bucket; give s3://BUCKET/PREFIX, gs://, azblob:// or file:///DIRECTORY",
			address)
	}
	r, query := &remote{}, u.Query()
	if u.Scheme == "file" {
		r.dir = filepath.FromSlash(u.Path)
		query.Set("create_dir", "1")
		query.Set("no_tmp_dir", "1")
		query.Set("metadata", "skip")
		query.Set("dir_file_mode", "0700")
	} else {
		if prefix := strings.Trim(u.Path, "/"); prefix != "" {
			query.Set("prefix", prefix+"/")
		}
		u.Path = ""
	}
	u.RawQuery = query.Encode()
	if r.bucket, err = blob.OpenBucket(ctx, u.String()); err != nil {
		return nil, fmt.Errorf("open the bucket %s://%s: %w", u.Scheme, u.Host+u.Path, err)
	}
	return r, nil
}

// localError is an error of this host in the middle of a request.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// try sends a request of so many bytes until it succeeds. The error is [ErrNotFound] if the bucket says so.
func (r *remote) try(ctx context.Context, what string, size int64, request func(context.Context) error) error {
	limit := requestTime + time.Duration(size/slowest)*time.Second
	for n, wait := 1, requestPause; ; n, wait = n+1, 2*wait {
		bounded, cancel := context.WithTimeout(ctx, limit)
		err := request(bounded)
		cancel()
		local, isLocal := errors.AsType[localError](err)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case isLocal:
			return local.error
		case gcerrors.Code(err) == gcerrors.NotFound:
			return ErrNotFound
		case n == requestTries: // the text only: the time of a request that has passed is not that of the caller
			return fmt.Errorf("%w: %s, %d times: %v", ErrUnavailable, what, n, err) //nolint:errorlint // see above
		}
		if !retryafter.Wait(ctx, wait/2+rand.N(wait)) { //nolint:gosec // no secret
			return ctx.Err()
		}
	}
}

// put writes an object. The body is opened for each try, and has to have a digest, if one is given.
func (r *remote) put(ctx context.Context, name string, size int64, digest spec.Digest, open func() (io.ReadCloser, error)) error {
	return r.try(ctx, "put "+name, size, func(ctx context.Context) error {
		body, err := open()
		if err != nil {
			return localError{err}
		}
		defer body.Close() //nolint:errcheck // only read
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w, err := r.bucket.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/octet-stream", BufferSize: partSize})
		if err != nil {
			return ofBucket(err)
		}
		n, found, err := Copy(ctx, w, body)
		if err == nil && (n != size || digest != "" && found != digest) {
			err = localError{fmt.Errorf("the file of blob %s was changed while it was sent", digest.Short())}
		}
		if err != nil {
			cancel() // or what was written so far becomes the object
			_ = w.Close()
			return err
		}
		if err := w.Close(); err != nil || r.dir == "" {
			return ofBucket(err)
		}
		return syncUpTo(r.dir, filepath.Join(r.dir, filepath.FromSlash(name)))
	})
}

// ofBucket makes an error that is not [ErrNotFound] of the answer that something is not found: it is the bucket.
func ofBucket(err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return errors.New(err.Error())
	}
	return err
}

// syncUpTo makes a file and the directories above it survive a power loss.
func syncUpTo(top, path string) error {
	for ; len(path) >= len(top); path = filepath.Dir(path) {
		if err := Sync(path); err != nil {
			return err
		}
	}
	return nil
}

// get reads a part of an object. read gets the size of the whole object, which is too short for the part if read gets less.
func (r *remote) get(ctx context.Context, name string, start, size int64, read func(whole int64, body io.Reader) error) error {
	err := r.try(ctx, "get "+name, size, func(ctx context.Context) error {
		body, err := r.bucket.NewRangeReader(ctx, name, start, size, nil)
		if err != nil {
			return err
		}
		defer body.Close() //nolint:errcheck // only read
		return read(body.Size(), body)
	})
	if !errors.Is(err, ErrUnavailable) {
		return err
	}
	// Stores differ in how they refuse a part that is behind the end.
	whole, failed := int64(0), r.try(ctx, "look at "+name, 0, func(ctx context.Context) error {
		info, err := r.bucket.Attributes(ctx, name)
		if err == nil && info.Size >= start+size {
			err = localError{errNotShort}
		}
		return err
	})
	if failed != nil {
		return err
	}
	return read(whole, strings.NewReader(""))
}

var errNotShort = errors.New("the object is not short")

// delete deletes an object, if it exists.
func (r *remote) delete(ctx context.Context, name string) error {
	err := r.try(ctx, "delete "+name, 0, func(ctx context.Context) error { return r.bucket.Delete(ctx, name) })
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// list calls each with pages of the objects whose names begin with a prefix.
func (r *remote) list(ctx context.Context, prefix string, each func([]*blob.ListObject) error) error {
	for token := blob.FirstPageToken; len(token) > 0; {
		var page []*blob.ListObject
		var next []byte
		err := r.try(ctx, "list "+prefix, 0, func(ctx context.Context) (err error) {
			page, next, err = r.bucket.ListPage(ctx, token, listPage, &blob.ListOptions{Prefix: prefix})
			return ofBucket(err)
		})
		if err == nil {
			err = each(page)
		}
		if err != nil {
			return err
		}
		token = next
	}
	return nil
}
