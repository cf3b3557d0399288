package gitlabtest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Fault is how the answers to some requests go wrong.
type Fault struct {
	// Method and Path say to which: those with this method, whose path ends with Path. Empty ones match all. If says so more
	// precisely; nil: all of them.
	Method, Path string
	If           func(r Request) bool
	// Times is how many answers go wrong; zero: all.
	Times int

	// Delay is how long the server does nothing first.
	Delay time.Duration
	// Cut closes the connection instead of doing what is asked.
	Cut bool
	// Lost does what is asked and closes the connection instead of answering.
	Lost bool
	// Status is another answer's, which comes instead of GitLab's; zero: GitLab's own.
	Status int
	Header map[string]string
	Body   string
}

// RateLimited is the fault of too many requests; after is the stated wait, zero: none is stated.
func RateLimited(after time.Duration) Fault {
	f := Fault{Status: http.StatusTooManyRequests, Body: "Retry later\n", Header: map[string]string{"Content-Type": "text/plain"}}
	if after > 0 {
		f.Header["Retry-After"] = strconv.Itoa(int(after.Seconds()))
		f.Header["RateLimit-Limit"], f.Header["RateLimit-Remaining"] = "60", "0"
	}
	return f
}

// BadGateway is the fault of a web server in front of GitLab.
func BadGateway() Fault {
	return Fault{
		Status: http.StatusBadGateway, Body: "<!DOCTYPE html><html><head><title>GitLab is not responding (502)</title></head></html>",
		Header: map[string]string{"Content-Type": "text/html"},
	}
}

// Refusal is the fault of an error in GitLab's own words.
func Refusal(status int, message string) Fault {
	body, err := json.Marshal(map[string]string{"message": message})
	check(err)
	return Fault{Status: status, Body: string(body)}
}

// On limits a fault to a method and the end of a path.
func (f Fault) On(method, path string) Fault {
	f.Method, f.Path = method, path
	return f
}

// Once limits a fault to one answer.
func (f Fault) Once() Fault {
	f.Times = 1
	return f
}

// armed is a fault and how often it has happened.
type armed struct {
	Fault
	happened int
}

// Fail makes answers go wrong, the newest fault first.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append([]*armed{{Fault: f}}, s.faults...)
}

// Mend ends all faults.
func (s *Server) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fault finds the one that a request meets. The server is locked.
func (s *Server) fault(r Request) *Fault {
	for _, f := range s.faults {
		fits := (f.Method == "" || f.Method == r.Method) && strings.HasSuffix(r.Path, f.Path) && (f.If == nil || f.If(r))
		if fits && (f.Times == 0 || f.happened < f.Times) {
			f.happened++
			return &f.Fault
		}
	}
	return nil
}

// before does what a fault does before the request is served, and reports whether it is to be.
func (s *Server) before(w http.ResponseWriter, r *http.Request, f Fault) bool {
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			return false
		case <-s.closing:
			return false
		}
	}
	switch {
	case f.Cut:
		cut(w)
		return false
	case f.Status != 0:
		w.Header().Set("Content-Type", "application/json")
		for name, value := range f.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body)
		return false
	}
	return true
}

// after does what a fault does once the request was served, and reports whether the answer is still to be sent.
func (s *Server) after(w http.ResponseWriter, f Fault) bool {
	if f.Lost {
		cut(w)
	}
	return !f.Lost
}

// cut closes the connection.
func cut(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	check(err)
	_ = conn.Close()
}
