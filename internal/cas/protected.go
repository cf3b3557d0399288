package cas

import "slices"

// matching lists the paths of the delta that match, sorted.
func (d Delta) matching(globs patterns) (paths []string) {
	if len(globs) == 0 {
		return nil
	}
	for p := range d {
		if globs.match(p) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// protect returns the target with what the base has at some paths.
func protect(base, target Manifest, paths []string) Manifest {
	t := newTree(target)
	for _, p := range paths {
		if _, ok := base[p]; !ok {
			t.remove(p)
		}
	}
	for _, p := range paths {
		if e, ok := base[p]; ok {
			t.set(p, e)
		}
	}
	return t.files
}
