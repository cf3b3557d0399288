package castest

import (
	"strings"

	"github.com/maestro-hive/maestro/internal/store/cas"
)

// Diff returns the delta that changes base into target. It compares all paths.
func Diff(base, target cas.Manifest) cas.Delta {
	d := cas.Delta{}
	for p, e := range target {
		if old, ok := base[p]; !ok || old != e {
			d[p] = cas.Change{Entry: e}
		}
	}
	for p := range base {
		if _, ok := target[p]; !ok {
			d[p] = cas.Change{Deleted: true}
		}
	}
	return d
}

// Apply returns the base with the delta applied. Entries that cannot coexist with a path of the
// delta are removed.
func Apply(base cas.Manifest, d cas.Delta) cas.Manifest {
	out := cas.Manifest{}
	for p, e := range base {
		stays := !d[p].Deleted
		for set, c := range d {
			beside := strings.HasPrefix(p, set+"/") || strings.HasPrefix(set, p+"/")
			stays = stays && (c.Deleted || !beside)
		}
		if stays {
			out[p] = e
		}
	}
	for p, c := range d {
		if !c.Deleted {
			out[p] = c.Entry
		}
	}
	return out
}
