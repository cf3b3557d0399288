package cas

import "testing"

// FuzzIgnore looks for lines of a .gitignore that make matching panic.
func FuzzIgnore(f *testing.F) {
	f.Add("*.log\n!/a/**/[!b]{c}\\", "a/b/c.log")
	f.Fuzz(func(t *testing.T, text, p string) {
		if CheckPath(p) != nil {
			t.Skip()
		}
		parseIgnore(cacheRules(nil), ".", text).decide(p, 0)
	})
}
