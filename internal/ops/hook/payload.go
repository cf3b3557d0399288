package hook

import (
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

// PayloadError is an error in the body of a signed call.
type PayloadError struct {
	// Pointer is the JSON pointer of the wrong value; empty: the whole body.
	Pointer string
	text    string
}

// Error says what is wrong.
func (e *PayloadError) Error() string { return e.text }

// payload is the body of a call.
type payload struct{ object map[string]any }

// parse reads a body: one object in UTF-8, with each key once.
func parse(body []byte) (payload, error) {
	var p payload
	if err := json.Unmarshal(body, &p.object); err != nil || p.object == nil {
		text := "the body is not a JSON object"
		if err != nil {
			text = "the body is not a JSON object: " + textfmt.Shorten(err.Error(), 200)
		}
		return p, &PayloadError{text: text}
	}
	return p, nil
}

// at returns the value at a JSON pointer (RFC 6901).
func (p payload) at(pointer string) (value any, ok bool) {
	value = p.object
	for token := range jsontext.Pointer(pointer).Tokens() {
		switch v := value.(type) {
		case map[string]any:
			if value, ok = v[token]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != token {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// has reports whether there is a value other than null at a pointer.
func (p payload) has(pointer string) bool {
	v, ok := p.at(pointer)
	return ok && v != nil
}

// string returns the string at a pointer; empty if there is another value, or none.
func (p payload) string(pointer string) string {
	v, _ := p.at(pointer)
	text, _ := v.(string)
	return text
}

// number returns the positive integer at a pointer; zero if there is another value, or none.
func (p payload) number(pointer string) int {
	v, _ := p.at(pointer)
	n, _ := v.(float64)
	if n < 1 || n > 1<<53 || n != math.Trunc(n) {
		return 0
	}
	return int(n)
}

// required returns the string at a pointer, or a [*PayloadError].
func (p payload) required(pointer string) (string, error) {
	v, ok := p.at(pointer)
	if !ok {
		return "", &PayloadError{pointer, fmt.Sprintf("the body has nothing at %s; the hook needs a string there", pointer)}
	}
	text, ok := v.(string)
	if !ok {
		return "", &PayloadError{pointer, fmt.Sprintf("the value at %s is not a string", pointer)}
	}
	return text, nil
}
