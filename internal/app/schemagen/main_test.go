package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/maestro-hive/maestro/docs/schema"
	"github.com/maestro-hive/maestro/internal/models/config"
)

// kind is a kind of file: its schema, and the loader that has the last word.
type kind struct {
	name   string
	data   []byte
	schema *jsonschema.Schema
	load   func(file string) error
}

func kinds(t *testing.T) (team, worker kind) {
	t.Helper()
	team = kind{name: "team.json", data: schema.Team, load: func(file string) error {
		_, err := config.LoadTeam(file)
		return err
	}}
	worker = kind{name: "worker.json", data: schema.Worker, load: func(file string) error {
		_, err := config.LoadWorker(file)
		return err
	}}
	for _, k := range []*kind{&team, &worker} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(k.data))
		require.NoError(t, err)
		c := jsonschema.NewCompiler()
		require.NoError(t, c.AddResource(k.name, doc))
		k.schema, err = c.Compile(k.name)
		require.NoError(t, err)
	}
	return team, worker
}

// validate holds a file against the schema, as an editor does.
func (k kind) validate(t *testing.T, file string) error {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var doc any
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	return k.schema.Validate(plain)
}

func TestSchemasAndPagesAreUpToDate(t *testing.T) {
	t.Parallel()
	out, pages := t.TempDir(), t.TempDir()
	shown := map[string]string{}
	for _, d := range documents {
		text, err := os.ReadFile(filepath.Join("../../../docs", d.page))
		require.NoError(t, err)
		shown[d.page] = string(text)
		require.NoError(t, os.WriteFile(filepath.Join(pages, d.page), text, 0o600))
	}
	require.NoError(t, write("../../..", out, pages))
	for page, text := range shown {
		written, err := os.ReadFile(filepath.Join(pages, page))
		require.NoError(t, err)
		require.Equal(t, string(written), text, "run `go generate ./docs/schema`")
	}
	for name, embedded := range map[string][]byte{"team.json": schema.Team, "worker.json": schema.Worker} {
		generated, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		require.Equal(t, string(generated), string(embedded), "run `go generate ./docs/schema`")
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	t.Parallel()
	products := strings.NewReplacer("GitHub", "", "GitLab", "")
	goName := regexp.MustCompile(`\b[A-Z][a-z]+[A-Z]\w*\b|[\[\]]`)
	for name, data := range map[string][]byte{"team.json": schema.Team, "worker.json": schema.Worker} {
		var s struct {
			Schema     string
			Properties map[string]struct{ Description string }
			Defs       map[string]struct {
				Description          string
				AdditionalProperties any
				Properties           map[string]struct{ Description string }
			} `json:"$defs"`
		}
		require.NoError(t, json.Unmarshal(data, &s))
		require.Contains(t, string(data), `"$schema": "https://json-schema.org/draft/2020-12/schema"`)
		require.NotEmpty(t, s.Properties)
		for key, p := range s.Properties {
			require.NotEmpty(t, p.Description, "%s: %s", name, key)
		}
		for of, d := range s.Defs {
			require.NotEmpty(t, d.Description, "%s: %s", name, of)
			for key, p := range d.Properties {
				require.NotEmpty(t, p.Description, "%s: %s.%s", name, of, key)
				require.NotRegexp(t, goName, products.Replace(p.Description), "%s: %s.%s speaks of Go", name, of, key)
				require.Equal(t, false, d.AdditionalProperties, "%s: %s takes keys that there are not", name, of)
			}
		}
	}
}

// TestGoodFiles holds every example, and every file that the loader's tests accept,
// against the schemas, with which the loader begins.
func TestGoodFiles(t *testing.T) {
	t.Parallel()
	team, worker := kinds(t)
	files, err := filepath.Glob("../../models/config/testdata/good/*.yaml")
	require.NoError(t, err)
	examples, err := filepath.Glob("../../../examples/*/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, file := range append(files, examples...) {
		k := team
		if name := filepath.Base(file); name == "agents.yaml" || strings.HasPrefix(name, "worker-") {
			k = worker
		}
		require.NoError(t, k.load(file), file)
	}
	for _, file := range examples {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		first, _, _ := strings.Cut(string(text), "\n")
		path, ok := strings.CutPrefix(first, "# yaml-language-server: $schema=")
		require.True(t, ok, "%s has no modeline", file)
		require.FileExists(t, filepath.Join(filepath.Dir(file), path))
	}
}

// TestShownFiles holds the complete files that pages show, and those that `init`
// writes, against the schemas.
func TestShownFiles(t *testing.T) {
	t.Parallel()
	team, worker := kinds(t)
	pages, err := filepath.Glob("../../../docs/*.md")
	require.NoError(t, err)
	shown := map[string][]string{}
	block := regexp.MustCompile("(?s)```yaml\n# (team|agents)\\.yaml\n(.*?)```")
	for _, page := range append(pages, "../../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			shown[m[1]] = append(shown[m[1]], m[2])
		}
	}
	for name, k := range map[string]kind{"team": team, "agents": worker} {
		require.Greater(t, len(shown[name]), 2)
		for _, text := range shown[name] {
			file := filepath.Join(t.TempDir(), "file.yaml")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			require.NoError(t, k.validate(t, file), text)
		}
	}
}
