package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
)

//go:embed assets/*
var assetFiles embed.FS

// assetVersion is in the addresses of all files that pages load, so that browsers may keep them for good.
var assetVersion = func() string {
	sum := sha256.New()
	err := fs.WalkDir(assetFiles, "assets", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := assetFiles.ReadFile(name)
		sum.Write(text)
		return err
	})
	if err != nil {
		panic(err) // they are embedded
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}()

func assetURL(name string) string { return "/assets/" + name + "?" + assetVersion }

func serveAsset(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeFileFS(w, r, assetFiles, "assets/"+r.PathValue("file")) //nolint:gosec // only what is embedded
}
