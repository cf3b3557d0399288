package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// message describes why the schema rejects a value and how to correct it: with the text of the
// schema's errorMessage, if it has one.
func message(k jsonschema.ErrorKind, value any, trail []map[string]any) string {
	s := trail[0]
	switch k := k.(type) {
	case *kind.Type:
		return mistyped(value, s)
	case *kind.Enum:
		var words []string
		for _, w := range k.Want {
			words = append(words, fmt.Sprint(w))
		}
		return fmt.Sprintf("is %s%s; it must be %s", shown(value), textfmt.DidYouMean(fmt.Sprint(value), words), either(words))
	case *kind.Minimum, *kind.Maximum, *kind.ExclusiveMinimum, *kind.ExclusiveMaximum:
		return fmt.Sprintf("is %s; it must be %s", shown(value), bounds(s))
	case *kind.MaxLength:
		return fmt.Sprintf("has %d characters; at most %d are allowed", k.Got, k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %d entries; at most %d are allowed", k.Got, k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %d entries; at most %d are allowed", k.Got, k.Want)
	case *kind.MinItems, *kind.MinProperties:
		if like, ok := s["x-example"]; ok {
			return fmt.Sprintf("is empty; it needs an entry, like `%v`", like)
		}
		return "is empty; it needs an entry"
	}
	if text, ok := value.(string); ok && strings.TrimSpace(text) == "" {
		return "is empty; give it a value, or leave it out"
	}
	for _, s := range trail {
		if words, ok := s["errorMessage"].(string); ok {
			return quoted(k, value) + words
		}
		if s["description"] != nil { // the schemas around it are those of enclosing fields
			break
		}
	}
	if k, ok := k.(*kind.Const); ok {
		return fmt.Sprintf("is %s; it must be %v", shown(value), k.Want)
	}
	return fmt.Sprintf("is %s, which is not allowed here", shown(value))
}

// mistyped is the message for a value of the wrong type.
func mistyped(value any, s map[string]any) string {
	text, isText := value.(string)
	switch s["type"] {
	case "object":
		required, _ := s["required"].([]any)
		names := slices.Sorted(maps.Keys(properties(s)))
		for i, name := range required {
			names = slices.Insert(slices.DeleteFunc(names, func(n string) bool { return n == name }), i, name.(string))
		}
		if len(names) == 0 {
			return fmt.Sprintf("must be a mapping, not %s; write each entry as `name: ...`", describe(value))
		}
		return fmt.Sprintf("must be a mapping with fields such as %s, not %s", strings.Join(names[:min(3, len(names))], ", "),
			describe(value))
	case "array":
		if isText && len(text) <= 60 {
			return fmt.Sprintf("must be a list, not %s; write [%s]", describe(value), text)
		}
		return fmt.Sprintf("must be a list, not %s; start each entry with `- `", describe(value))
	case "integer", "number":
		if _, ok := plainNumber(text); isText && ok {
			return "must be a number, not text; take the quotes away"
		}
	case "string":
		if !isText && describe(value) != "a mapping" && describe(value) != "a list" {
			return fmt.Sprintf("must be text, not %s; put it in quotes: \"%v\"", describe(value), value)
		}
	}
	return fmt.Sprintf("must be %s, not %s", wanted(s), describe(value))
}

// wanted describes a value of a schema's type as it is written in a file.
func wanted(s map[string]any) string {
	if types, ok := s["type"].([]any); ok && slices.Contains(types, any("object")) {
		return "true, false or a mapping with " + either(slices.Sorted(maps.Keys(properties(s))))
	}
	switch s["type"] {
	case "boolean":
		return "true or false"
	case "integer":
		return "a whole number, like 3"
	case "number":
		return "a number, like 0.8"
	case "string":
		return "text"
	}
	if d, ok := s["description"].(string); ok {
		return strings.ToLower(d[:1]) + strings.TrimSuffix(d[1:], ".")
	}
	return "a single value"
}

// bounds describes the range of a number.
func bounds(s map[string]any) string {
	least, from := s["minimum"]
	most, to := s["maximum"]
	above, isAbove := s["exclusiveMinimum"]
	below, isBelow := s["exclusiveMaximum"]
	switch {
	case isAbove && isBelow:
		return fmt.Sprintf("above %v and below %v", above, below)
	case isAbove && to:
		return fmt.Sprintf("above %v and at most %v", above, most)
	case isAbove:
		return fmt.Sprintf("above %v", above)
	case from && to:
		return fmt.Sprintf("between %v and %v", least, most)
	case from:
		return fmt.Sprintf("at least %v", least)
	}
	return fmt.Sprintf("at most %v", most)
}

// describe names a value, for messages of the form "must be ..., not".
func describe(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("the text %q", clip(v))
	case json.Number:
		return "the number " + clip(string(v))
	}
	return fmt.Sprint(v)
}

// quoted repeats a text that a pattern rejects, unless it may be a secret.
func quoted(k jsonschema.ErrorKind, value any) string {
	switch k.(type) {
	case *kind.Pattern, *kind.Not:
		if text, ok := value.(string); ok && len(text) <= 80 && !strings.ContainsAny(text, "=@") {
			return shown(text) + " "
		}
	}
	return ""
}

// shown is a scalar in the form in which a message repeats it.
func shown(v any) string {
	if text, ok := v.(string); ok {
		return fmt.Sprintf("%q", clip(text))
	}
	return clip(fmt.Sprint(v))
}

// either joins words as "a, b or c".
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
