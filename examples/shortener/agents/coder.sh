#!/bin/sh
# The agent of the personas who write Go. It works without a model, so that the example
# needs no network and no key. What it writes is built and tested.
set -eu
. "$(dirname "$0")/brief.sh"

# backend writes the store. Its first attempt forgets that two addresses may get the
# same code. The test fails, and the next attempt gets the failure in its brief.
backend() {
	if [ "$(number round)/$(number attempt)" = 1/1 ]; then
		turn "writing store.go and its test" 5200 1400
		store put_careless
		leave "A store that maps codes to addresses."
	else
		turn "reading why it failed: $(text message)" 6900 310
		turn "handling code collisions" 7300 900
		store put_careful
		leave "A store that maps codes to addresses and handles code collisions."
	fi
}

# store PUT writes the module and its test. The function PUT prints the method Put.
store() {
	cat > go.mod <<'END'
module shortener

go 1.24
END
	cat > code.go <<END
package shortener

import (
	"crypto/sha256"
	"math/big"
	"strconv"
)

// CodeLength is the number of characters in a code.
const CodeLength = $(text code_length 7)

// code derives a code from an address. Different tries give different
// codes.
func code(address string, try int) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(try) + " " + address))
	return new(big.Int).SetBytes(sum[:]).Text(62)[:CodeLength]
}
END
	cat > store_test.go <<'END'
package shortener

import "testing"

func TestSameAddressSameCode(t *testing.T) {
	s := NewStore()
	if a, b := s.Put("https://example.com/a"), s.Put("https://example.com/a"); a != b {
		t.Fatalf("%s and %s for one address", a, b)
	}
}

func TestAddressesWithTheSameCode(t *testing.T) {
	s := NewStore()
	s.code = func(_ string, try int) string { return [...]string{"first", "second"}[try] }
	a, b := s.Put("https://example.com/a"), s.Put("https://example.com/b")
	if got, _ := s.Get(a); got != "https://example.com/a" {
		t.Fatalf("%s leads to %s; want https://example.com/a", a, got)
	}
	if got, _ := s.Get(b); got != "https://example.com/b" {
		t.Fatalf("%s leads to %s; want https://example.com/b", b, got)
	}
}
END
	{
		cat <<'END'
package shortener

import "sync"

// Store maps codes to addresses. It may be used by many goroutines.
type Store struct {
	mu        sync.Mutex
	addresses map[string]string
	code      func(address string, try int) string
}

// NewStore makes an empty store.
func NewStore() *Store {
	return &Store{addresses: map[string]string{}, code: code}
}

END
		"$1"
		cat <<'END'

// Get returns the address of a code.
func (s *Store) Get(code string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	address, ok := s.addresses[code]
	return address, ok
}
END
	} > store.go
}

put_careless() {
	cat <<'END'
// Put keeps an address and returns its code.
func (s *Store) Put(address string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.code(address, 0)
	s.addresses[c] = address
	return c
}
END
}

put_careful() {
	cat <<'END'
// Put keeps an address and returns its code, the same one each time.
func (s *Store) Put(address string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for try := 0; ; try++ {
		c := s.code(address, try)
		known, taken := s.addresses[c]
		if taken && known != address {
			continue // another address was here first
		}
		s.addresses[c] = address
		return c
	}
}
END
}

frontend() {
	turn "reading docs/design.md" 5100 160
	turn "writing handler.go and the program" 5600 1150
	cat > handler.go <<'END'
package shortener

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Links is what a handler needs to keep addresses.
type Links interface {
	Put(address string) (code string)
	Get(code string) (address string, ok bool)
}

// NewHandler serves links: POST / keeps the address in the form field
// url, GET /{code} sends the browser on to it.
func NewHandler(links Links) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		address := strings.TrimSpace(r.FormValue("url"))
		if u, err := url.Parse(address); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			http.Error(w, "url must be an http or https address", http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "http://%s/%s\n", r.Host, links.Put(address))
	})
	mux.HandleFunc("GET /{code}", func(w http.ResponseWriter, r *http.Request) {
		address, ok := links.Get(r.PathValue("code"))
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, address, http.StatusFound)
	})
	return mux
}
END
	mkdir -p cmd/shortener
	cat > cmd/shortener/main.go <<'END'
// Command shortener serves short addresses on port 8080.
package main

import (
	"log"
	"net/http"
	"time"

	"shortener"
)

func main() {
	server := &http.Server{
		Addr: ":8080", Handler: shortener.NewHandler(shortener.NewStore()),
		ReadHeaderTimeout: 5 * time.Second,
	}
	log.Fatal(server.ListenAndServe())
}
END
	leave "The HTTP handler and the program around it."
}

tester() {
	turn "listing what the requirements promise" 6100 280
	turn "writing shortener_e2e_test.go" 6600 980
	cat > shortener_e2e_test.go <<'END'
package shortener_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"shortener"
)

// TestPromises goes through docs/requirements.md from outside.
func TestPromises(t *testing.T) {
	server := httptest.NewServer(shortener.NewHandler(shortener.NewStore()))
	defer server.Close()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

	short := post(t, server.URL, "https://example.com/a/long/address", http.StatusCreated)
	if code := short[strings.LastIndex(short, "/")+1:]; len(code) != shortener.CodeLength {
		t.Errorf("code %q has not %d characters", code, shortener.CodeLength)
	}
	if again := post(t, server.URL, "https://example.com/a/long/address", http.StatusCreated); again != short {
		t.Errorf("one address got %s and %s", short, again)
	}
	if other := post(t, server.URL, "https://example.com/b", http.StatusCreated); other == short {
		t.Errorf("two addresses got %s", short)
	}
	post(t, server.URL, "ftp://example.com", http.StatusBadRequest)

	answer, err := client.Get(short)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusFound || answer.Header.Get("Location") != "https://example.com/a/long/address" {
		t.Errorf("GET %s: %s to %q", short, answer.Status, answer.Header.Get("Location"))
	}
	answer, err = client.Get(server.URL + "/nobody")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		t.Errorf("GET of an unknown code: %s", answer.Status)
	}
}

func post(t *testing.T, server, address string, want int) string {
	t.Helper()
	answer, err := http.PostForm(server, url.Values{"url": {address}})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != want {
		t.Fatalf("POST %s: %s; want %d", address, answer.Status, want)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}
END
	leave "A test of every requirement, through HTTP."
}

case $(text phase)/$(text persona) in
implementation/backend) backend ;;
implementation/frontend) frontend ;;
testing/tester) tester ;;
*) unknown ;;
esac
