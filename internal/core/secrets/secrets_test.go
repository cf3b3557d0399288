package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// encodings are how secrets come into texts, by what encodes them. Each is an encoder
// that is not the masker's own.
var encodings = map[string]func(string) string{
	"plain":      func(s string) string { return s },
	"JSON":       func(s string) string { return inJSON(s, true) },
	"JSON plain": func(s string) string { return inJSON(s, false) },
	"JSON ASCII": func(s string) string { return strconv.QuoteToASCII(inJSON(s, true)) }, // quoted twice
	"JSON twice": func(s string) string { return inJSON(inJSON(s, false), true) },
	"JSON slash": func(s string) string { return strings.ReplaceAll(inJSON(s, false), "/", `\/`) },
	"all \\u": func(s string) string {
		var b strings.Builder
		for _, unit := range utf16Of(s) {
			fmt.Fprintf(&b, `\u%04X`, unit)
		}
		return b.String()
	},
	"all \\x": func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
		return "$'" + b.String() + "'"
	},
	"octal": func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			fmt.Fprintf(&b, `\%03o`, c)
		}
		return b.String()
	},
	"%q":            strconv.Quote,
	"%+q":           strconv.QuoteToASCII,
	"sh":            func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
	"sh double":     func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'"'"'`) + "'" },
	"query":         url.QueryEscape,
	"query lower":   func(s string) string { return strings.ToLower(all(s, "%%%02x")) },
	"path":          url.PathEscape,
	"percent":       func(s string) string { return all(s, "%%%02X") },
	"HTML":          html.EscapeString,
	"hex":           func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":           func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"base64":        func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 1":      func(s string) string { return base64.StdEncoding.EncodeToString([]byte("x" + s + "yz")) },
	"base64 2":      func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte("xy" + s + "z")) },
	"base64url":     func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
	"base64url 1":   func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("x" + s)) },
	"base64url 2":   func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("xy" + s)) },
	"base64 query":  func(s string) string { return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte("a" + s))) },
	"base64 broken": func(s string) string { return wrapped(base64.StdEncoding.EncodeToString([]byte("user:" + s))) },
	"base64 in JSON": func(s string) string {
		return inJSON(wrapped(base64.StdEncoding.EncodeToString([]byte("user:"+s))), true)
	},
}

func inJSON(s string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	_ = e.Encode(map[string]string{"text": s})
	return strings.TrimSpace(b.String())
}

func utf16Of(s string) (units []uint16) {
	for _, r := range s {
		if r > 0xFFFF {
			r -= 0x10000
			units = append(units, uint16(0xD800+r>>10), uint16(0xDC00+r&0x3FF))
			continue
		}
		units = append(units, uint16(r))
	}
	return units
}

func all(s, format string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// wrapped breaks a text into lines, as base64(1) does.
func wrapped(s string) string {
	var b strings.Builder
	for len(s) > 12 {
		b.WriteString(s[:12] + "\r\n")
		s = s[12:]
	}
	return b.String() + s
}

// randomSecret is one of the length of a real one, of characters that encoders care
// about more than of others.
func randomSecret(r *rand.Rand) string {
	odd := []rune("\"'\\/<>&+-_=%$`!#@ \t\né€😀\u2028")
	var b strings.Builder
	for range minLength + r.IntN(60) {
		if r.IntN(3) == 0 {
			b.WriteRune(odd[r.IntN(len(odd))])
		} else {
			b.WriteByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[r.IntN(62)])
		}
	}
	return b.String()
}

func TestNoEncodingShowsASecret(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		secret := randomSecret(r)
		m := of("another-secret", secret)
		for name, encode := range encodings {
			if name == "JSON ASCII" && strings.ContainsFunc(secret, func(c rune) bool { return c > 0xFFFF }) {
				continue // each half of the character is escaped twice
			}
			encoded := encode(secret)
			text := "before " + encoded + " after"
			masked := m.Mask(text)
			require.Contains(t, masked, Masked, "%s of %q: %s", name, secret, encoded)
			require.NotContains(t, masked, encoded, name)
			s := m.Stream()
			var got []byte
			for rest := text; rest != ""; {
				n := min(len(rest), 1+r.IntN(5))
				got = append(got, s.Next([]byte(rest[:n]))...)
				rest = rest[n:]
			}
			require.Equal(t, masked, string(append(got, s.End()...)), "in pieces")
			read, err := io.ReadAll(m.Reader(iotest.OneByteReader(strings.NewReader(text))))
			require.NoError(t, err)
			require.Equal(t, masked, string(read))
		}
	}
}

func TestWhatBashQuotesIsMasked(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		secret := randomSecret(r)
		out, err := exec.Command(bash, "-c", `printf '%q\n' "$1"; printf '%s\n' "${1@Q}"; printf %s "$1" | base64`, "bash",
			secret).Output()
		require.NoError(t, err)
		require.Equal(t, 3, strings.Count(of(secret).Mask(string(out)), Masked), "%q: %s", secret, out)
	}
}

func TestMaskingLeavesOtherTextsAlone(t *testing.T) {
	t.Parallel()
	m := of("sk-0123456789abcdef", "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\n-----END KEY-----\n")
	for in, want := range map[string]string{
		`C:\\path\n "quoted" %41%42 \u0041 -----BEGIN KEY----- short`: "",
		"a line MIIEvQIBADANBgkqhkiG alone":                           "a line *** alone",
		"sk-0123456789abcde":                                          "",
		strings.Repeat(`\`, 100):                                      "",
	} {
		if want == "" {
			want = in
		}
		require.Equal(t, want, m.Mask(in))
	}
}

// of is the set of values without names.
func of(values ...string) *Set {
	var all []Secret
	for _, v := range values {
		all = append(all, Secret{Value: v})
	}
	return New(all)
}

func TestTheNameOfASecretThatIsFound(t *testing.T) {
	t.Parallel()
	m := New([]Secret{{"DB_PASSWORD", "postgres"}, {"API_KEY", "sk-0123456789"}, {"SECOND", "sk-0123456789"}})
	for text, want := range map[string]string{
		"image: postgres": "DB_PASSWORD", "c2stMDEyMzQ1Njc4OQ==": "API_KEY", "nothing": "",
	} {
		name, found := m.Find([]byte(text))
		require.Equal(t, want, name, text)
		require.Equal(t, want != "", found, text)
	}
}

func TestWordsThatAreSecrets(t *testing.T) {
	t.Parallel()
	for value, ordinary := range map[string]bool{
		"postgres": true, "Password1": true, "CHANGE-ME": true, "12345678": true, "correct horse": true,
		"sk-0123456789abcdef": false, "k3jH8sQ2": false, "hFkeLsoPqmZ": false, "abcdefghijklmnopqrstuvwxyz": false,
	} {
		require.Equal(t, ordinary, New([]Secret{{"X", value}}).Ordinary() != nil, value)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	m := of("short", "", "longsecret", "longsecret-and-more", "two\nlines\"quoted")
	require.Equal(t, []Secret{{Value: "longsecret"}, {Value: "longsecret-and-more"}, {Value: "two\nlines\"quoted"}}, m.Secrets())
	for in, want := range map[string]string{
		"short stays":                   "short stays",
		"longsecret":                    "***",
		"longsecret-and-more":           "***",
		"longsecret-and-mor":            "***-and-mor",
		"xlongsecretlongsecretx":        "x******x",
		"longsecre":                     "longsecre",
		"two\nlines\"quoted":            "***",
		`{"text":"two\nlines\"quoted"}`: `{"text":"***"}`,
	} {
		require.Equal(t, want, m.Mask(in))
	}
}

// FuzzMask holds masking in pieces against masking at once.
func FuzzMask(f *testing.F) {
	f.Add("an sk-12345678 and sk-123456789", "sk-12345678", "sk-1234567890", uint8(5))
	f.Add("aaaaaaaaaaaaaaaaab", "aaaaaaaaab", "aaaaaaaa", uint8(1))
	f.Fuzz(func(t *testing.T, text, first, second string, size uint8) {
		m := of(first, second)
		s := m.Stream()
		var got []byte
		for rest := text; rest != ""; {
			n := min(len(rest), int(size%16)+1)
			got = append(got, s.Next([]byte(rest[:n]))...)
			rest = rest[n:]
		}
		got = append(got, s.End()...)
		require.Equal(t, m.Mask(text), string(got))
		require.Equal(t, m.In(text), string(got) != text)
	})
}

func BenchmarkMask(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	var secrets []string
	for range 50 {
		secrets = append(secrets, randomSecret(r))
	}
	m := of(secrets...)
	line := "2026-01-02T03:04:05Z INFO built internal/models/agent/mask.go in 12.5ms, 3 of 40 tests: {\"ok\": true, \"path\": " +
		"\"a\\\\b\"}\n"
	for name, text := range map[string]string{
		"log":         strings.Repeat(line, 10_000),
		"base64":      base64.StdEncoding.EncodeToString([]byte(strings.Repeat(line, 10_000))),
		"backslashes": strings.Repeat(`\`, 1_000_000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				m.Mask(text)
			}
		})
	}
}
