package jiratest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"
)

// Fault is how the answers to some requests go wrong.
type Fault struct {
	// Method and Path say to which: those with this method, whose path ends with
	// Path. Empty ones match all.
	Method, Path string
	// Times is how many answers go wrong; zero: all.
	Times int

	// Delay is how long the server does nothing first.
	Delay time.Duration
	// Cut closes the connection instead of doing what is asked.
	Cut bool
	// Lost does what is asked and closes the connection instead of answering.
	Lost bool
	// Half does what is asked and cuts its answer in the middle.
	Half bool
	// Status is another answer's, which comes instead of Jira's; zero: Jira's own.
	Status int
	Header map[string]string
	Body   string
	// Done does what is asked before it gives the other answer.
	Done bool
}

// RateLimited is the fault of too many requests.
func RateLimited(after time.Duration) Fault {
	return Fault{
		Status: http.StatusTooManyRequests, Body: `{"errorMessages":["Rate limit exceeded."],"errors":{}}`,
		Header: map[string]string{
			"Retry-After": strconv.Itoa(int(after.Seconds())), "X-RateLimit-Limit": "350", "X-RateLimit-Remaining": "0",
			"RateLimit-Reason": "jira-burst-based",
		},
	}
}

// Page is the fault of a web page that answers in Jira's place.
func Page(status int, title string) Fault {
	return Fault{
		Status: status, Body: "<!DOCTYPE html><html><head><title>" + title + "</title></head><body></body></html>",
		Header: map[string]string{"Content-Type": "text/html; charset=utf-8"},
	}
}

// Refusal is the fault of an error in Jira's own words.
func Refusal(status int, fields map[string]string, messages ...string) Fault {
	if messages == nil {
		messages = []string{}
	}
	known := map[string]string{}
	maps.Copy(known, fields)
	body, err := json.Marshal(map[string]any{"errorMessages": messages, "errors": known})
	if err != nil {
		panic("jiratest: " + err.Error())
	}
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
		fits := (f.Method == "" || f.Method == r.Method) && strings.HasSuffix(r.Path, f.Path)
		if fits && (f.Times == 0 || f.happened < f.Times) {
			f.happened++
			return &f.Fault
		}
	}
	return nil
}

// before does what a fault does before the request is served, and reports whether
// it is to be.
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
		cut(w, nil)
		return false
	case f.Status != 0 && !f.Done:
		answer(w, f)
		return false
	}
	return true
}

// after does what a fault does once the request was served, and reports whether its
// own answer is still to be sent.
func (s *Server) after(w http.ResponseWriter, f Fault, out *httptest.ResponseRecorder) bool {
	switch {
	case f.Lost:
		cut(w, nil)
	case f.Half:
		cut(w, out)
	case f.Status != 0:
		answer(w, f)
	default:
		return true
	}
	return false
}

func answer(w http.ResponseWriter, f Fault) {
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	for name, value := range f.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body)
}

// cut closes the connection, after half of an answer if there is one.
func cut(w http.ResponseWriter, out *httptest.ResponseRecorder) {
	conn, buf, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic("jiratest: " + err.Error())
	}
	defer conn.Close() //nolint:errcheck // It is cut.
	if out == nil {
		return
	}
	_, _ = buf.WriteString("HTTP/1.1 " + strconv.Itoa(out.Code) + " " + http.StatusText(out.Code) + "\r\n" +
		"Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(out.Body.Len()) + "\r\n\r\n")
	_, _ = buf.Write(out.Body.Bytes()[:out.Body.Len()/2])
	_ = buf.Flush()
}
