package cas

import (
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"
)

// FuzzIndexDecode looks for what makes the reader of an index's head panic, or accept what
// would not be written. The checksum is put right, since it would hide both.
func FuzzIndexDecode(f *testing.F) {
	name := DigestOf(nil)
	whole := encodeIndex(name, 1, map[string][]indexEntry{"a": {{"b", name, stamp{1, 2, 3, 4, 5}}}})
	size := binary.LittleEndian.Uint64(whole[len(indexMagic):])
	f.Add(whole[len(indexMagic)+8:][:size], whole[len(indexMagic)+8:][size+sha256.Size:])
	f.Add([]byte(strings.Repeat("0", 64)+"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), []byte{})
	f.Fuzz(func(t *testing.T, head, body []byte) {
		data := binary.LittleEndian.AppendUint64([]byte(indexMagic), uint64(len(head)))
		data = append(data, head...)
		sum := sha256.Sum256(data)
		x := decodeIndex(append(append(data, sum[:]...), body...))
		if x == nil {
			return
		}
		for dir := range x.dirs {
			x.dir(dir)
		}
	})
}

// FuzzIndexSection looks for what makes the reader of an index's directories panic, or accept what
// it would not write.
func FuzzIndexSection(f *testing.F) {
	f.Add(appendSection(nil, []indexEntry{{"b", DigestOf(nil), stamp{1, 2, 3, 4, 5}}, {"c", "", stamp{1, 2, 3, 4, 6}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		files := decodeSection(string(data))
		if again := decodeSection(string(appendSection(nil, files))); len(files) > 0 && !reflect.DeepEqual(files, again) {
			t.Fatalf("%v became %v", files, again)
		}
	})
}

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
