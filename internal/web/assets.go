package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed assets/*
var assetFiles embed.FS

// assets are the files that pages load. Their names have a digest of their content, so that
// browsers may keep them for good.
type assets struct {
	// names maps a file's name to the address, and files the address to the content.
	names map[string]string
	files map[string][]byte
}

func loadAssets() assets {
	a := assets{names: map[string]string{}, files: map[string][]byte{}}
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // they are embedded
	}
	for _, e := range entries {
		content, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(content)
		extension := path.Ext(e.Name())
		address := "/assets/" + strings.TrimSuffix(e.Name(), extension) + "." + hex.EncodeToString(sum[:6]) + extension
		a.names[e.Name()], a.files[address] = address, content
	}
	return a
}

// url is the address of a file.
func (a assets) url(name string) string { return a.names[name] }

func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, ok := a.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(r.URL.Path)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(content)
}
