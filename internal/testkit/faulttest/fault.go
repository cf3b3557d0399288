// Package faulttest makes answers of stand-ins for services go wrong, and keeps what they were asked.
package faulttest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Request is a request that a server got.
type Request struct {
	Method string
	// Path is the escaped one below that of the API.
	Path   string
	Query  url.Values
	Header http.Header
	Body   []byte
	// Status is that of the answer, and Answer its body; zero before there is one.
	Status int
	Answer []byte
}

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
	// Half does what is asked and cuts its answer in the middle.
	Half bool
	// Status is another answer's, which comes instead of the service's; zero: the service's own.
	Status int
	Header map[string]string
	Body   string
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

// Answer is the answer to a request, as serve or the fault has it; nil: the client has gone, or the server closes.
func (f Fault) Answer(r *http.Request, closing <-chan struct{}, serve func(out http.ResponseWriter)) *httptest.ResponseRecorder {
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			return nil
		case <-closing:
			return nil
		}
	}
	out := httptest.NewRecorder()
	switch {
	case f.Cut:
	case f.Status != 0:
		out.Header().Set("Content-Type", "application/json")
		for name, value := range f.Header {
			out.Header().Set(name, value)
		}
		out.WriteHeader(f.Status)
		_, _ = io.WriteString(out, f.Body)
	default:
		serve(out)
	}
	return out
}

// Send sends an answer, or as much of it as the fault lets through.
func (f Fault) Send(w http.ResponseWriter, out *httptest.ResponseRecorder) {
	switch {
	case f.Cut, f.Lost:
		cut(w, nil)
	case f.Half:
		cut(w, out)
	default:
		for name, values := range out.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(out.Code)
		_, _ = w.Write(out.Body.Bytes())
	}
}

// Server is the part of a stand-in that has faults. The zero value has none.
type Server struct {
	// HalfGets: a cut or lost answer to a GET is cut in its middle. Clients repeat a GET by themselves if no answer begins.
	HalfGets bool

	mu       sync.Mutex
	requests []*Request
	faults   []*armed
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

// Requests lists what the server was asked, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Request
	for _, r := range s.requests {
		out = append(out, *r)
	}
	return out
}

// Answer keeps a request, and answers it as serve does or as a fault has it. A delay ends with closing.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request, req Request, closing <-chan struct{},
	serve func(out http.ResponseWriter),
) {
	f := s.fault(&req)
	if s.HalfGets && r.Method == http.MethodGet && (f.Cut || f.Lost) {
		f.Cut, f.Lost, f.Half = false, false, true
	}
	if out := f.Answer(r, closing, serve); out != nil {
		s.mu.Lock()
		req.Status, req.Answer = out.Code, out.Body.Bytes()
		s.mu.Unlock()
		f.Send(w, out)
	}
}

// fault keeps a request and finds the fault that it meets; the zero one if it meets none.
func (s *Server) fault(r *Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	for _, f := range s.faults {
		fits := (f.Method == "" || f.Method == r.Method) && strings.HasSuffix(r.Path, f.Path) && (f.If == nil || f.If(*r))
		if fits && (f.Times == 0 || f.happened < f.Times) {
			f.happened++
			return f.Fault
		}
	}
	return Fault{}
}

// cut closes the connection, after half of an answer if there is one.
func cut(w http.ResponseWriter, out *httptest.ResponseRecorder) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic("faulttest: " + err.Error())
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
