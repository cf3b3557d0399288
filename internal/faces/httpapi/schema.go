package httpapi

import (
	"path"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/spec"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const schemasPath = "#/components/schemas/"

// newRegistry knows how types are written that write themselves.
func newRegistry() huma.Registry {
	registry := huma.NewMapRegistry(schemasPath, schemaName)
	registry.RegisterTypeAlias(reflect.TypeFor[cost.USD](), reflect.TypeFor[dollars]())
	registry.RegisterTypeAlias(reflect.TypeFor[textfmt.Duration](), reflect.TypeFor[duration]())
	registry.RegisterTypeAlias(reflect.TypeFor[spec.Team](), reflect.TypeFor[team]())
	registry.RegisterTypeAlias(reflect.TypeFor[spec.Approval](), reflect.TypeFor[approval]())
	return registry
}

// schemaName names a schema after its type, and after its package where that is not the control
// plane's: types of several packages have one name.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch pkg := path.Base(t.PkgPath()); pkg {
	case ".", "control", "httpapi", "v2":
		return name
	default:
		return strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
}

// dollars is how money is written: a number with up to six places.
type dollars float64

// Schema implements [huma.SchemaProvider].
func (dollars) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeNumber, Description: "US dollars"}
}

// duration is how a duration is written.
type duration string

// Schema implements [huma.SchemaProvider].
func (duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: "a duration, like 1h30m", Examples: []any{"1h30m"}}
}

// team is how a team is written.
type team struct{}

// Schema implements [huma.SchemaProvider].
func (team) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true,
		Description: "a team: the fields of a team file, as `maestro schema team` describes them, with their defaults",
	}
}

// approval is how the rule of an approval is written.
type approval struct{}

// Schema implements [huma.SchemaProvider].
func (approval) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "whether a person has to approve; an object: of which groups (by), and how many (count)",
		OneOf: []*huma.Schema{
			{Type: huma.TypeBoolean},
			{Type: huma.TypeObject, Properties: map[string]*huma.Schema{
				"by": {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}, "count": {Type: huma.TypeInteger},
			}},
		},
	}
}

// allowNull says of fields that point to a structure, and are written when they point to none, that
// they may be null.
func allowNull(registry huma.Registry) {
	for name, schema := range registry.Map() {
		t := registry.TypeFromRef(schemasPath + name)
		for t != nil && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t == nil || t.Kind() != reflect.Struct {
			continue
		}
		for _, f := range reflect.VisibleFields(t) {
			key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			property := schema.Properties[key]
			if f.Type.Kind() != reflect.Pointer || property == nil || property.Ref == "" || strings.Contains(options, "omit") {
				continue
			}
			schema.Properties[key] = &huma.Schema{
				AnyOf:       []*huma.Schema{{Ref: property.Ref}, {Type: "null"}},
				Description: property.Description,
			}
		}
	}
}
