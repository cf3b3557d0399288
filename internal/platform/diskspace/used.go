package diskspace

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
)

// Used is how much there is of something.
type Used struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// Add adds what is used elsewhere.
func (u Used) Add(v Used) Used { return Used{u.Files + v.Files, u.Bytes + v.Bytes} }

// Below counts the files below each name in a directory. It takes some seconds for a million of them.
// What others remove meanwhile, and what cannot be read, does not count.
func Below(ctx context.Context, dir string) (map[string]Used, error) {
	used := map[string]Used{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil
		case err != nil || entry.IsDir():
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(path, dir+"/"), "/")
		used[name] = used[name].Add(Used{1, info.Size()})
		return nil
	})
	return used, err
}
