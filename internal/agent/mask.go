package agent

import (
	"encoding/json"
	"slices"
	"strings"
)

const (
	// minSecret is the length below which a value is no secret: masking it
	// would tear words apart that have nothing to do with it.
	minSecret = 8
	// maskedSecret stands where a secret was.
	maskedSecret = "***"
)

// isSecretName tells whether a variable of this name holds a secret.
func isSecretName(name string) bool {
	for _, suffix := range []string{"KEY", "TOKEN", "SECRET", "PASSWORD"} {
		if strings.HasSuffix(strings.ToUpper(name), suffix) {
			return true
		}
	}
	return false
}

// secretNames lists the variables of the worker's environment that hold secrets.
func (c Config) secretNames() []string {
	names := append(slices.Clone(c.Secrets), c.tellingSecrets()...)
	add := func(env []string) {
		for _, name := range env {
			if isSecretName(name) {
				names = append(names, name)
			}
		}
	}
	for _, d := range c.Agents {
		add(d.Env)
		if d.APIKeyEnv != "" {
			names = append(names, d.APIKeyEnv)
		}
	}
	for _, d := range c.Checks {
		add(d.Env)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// masker knows the secrets.
type masker struct {
	// values are the secrets as they are, sorted; what is masked is these and
	// their form inside a JSON string.
	values []string
	// forms lists what is masked, longest first, by first byte.
	forms [256][]string
}

// newMasker keeps the values that are long enough to be secrets.
func newMasker(values []string) *masker {
	m := &masker{}
	var forms []string
	for _, v := range values {
		if len(v) < minSecret {
			continue
		}
		m.values = append(m.values, v)
		forms = append(forms, v)
		if quoted, err := json.Marshal(v); err == nil {
			forms = append(forms, string(quoted[1:len(quoted)-1]))
		}
	}
	slices.Sort(m.values)
	m.values = slices.Compact(m.values)
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	for _, f := range slices.Compact(forms) {
		m.forms[f[0]] = append(m.forms[f[0]], f)
	}
	return m
}

// mask replaces every secret in the text.
func (m *masker) mask(text string) string {
	out, _ := m.scan(nil, []byte(text), true)
	return string(out)
}

// holds tells whether the text has a secret in it.
func (m *masker) holds(text string) bool { return m.mask(text) != text }

// scan appends data to out with its secrets replaced. Unless data is the last of
// its stream, it stops where a secret may have begun that more data would
// complete, and returns what it left.
func (m *masker) scan(out, data []byte, last bool) (masked, rest []byte) {
	plain := 0 // data[plain:i] is yet to be copied
	for i := 0; i < len(data); {
		forms := m.forms[data[i]]
		if len(forms) == 0 {
			i++
			continue
		}
		found := ""
		for _, f := range forms {
			switch {
			case len(f) <= len(data)-i:
				if found == "" && string(data[i:i+len(f)]) == f {
					found = f
				}
			case !last && string(data[i:]) == f[:len(data)-i]:
				return append(out, data[plain:i]...), data[i:]
			}
		}
		if found == "" {
			i++
			continue
		}
		out = append(append(out, data[plain:i]...), maskedSecret...)
		i += len(found)
		plain = i
	}
	return append(out, data[plain:]...), nil
}

// maskedStream masks a stream that comes in pieces.
type maskedStream struct {
	masker *masker
	rest   []byte
}

// next returns what is certain of the stream once data has been read.
func (s *maskedStream) next(data []byte) []byte {
	out, rest := s.masker.scan(nil, append(s.rest, data...), false)
	s.rest = slices.Clone(rest)
	return out
}

// end returns what is left of the stream.
func (s *maskedStream) end() []byte {
	out, _ := s.masker.scan(nil, s.rest, true)
	s.rest = nil
	return out
}
