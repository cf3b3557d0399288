package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/maestro-hive/maestro/internal/core/cost"
	"github.com/maestro-hive/maestro/internal/core/failures"
	"github.com/maestro-hive/maestro/internal/core/secrets"
	"github.com/maestro-hive/maestro/internal/core/session"
	"github.com/maestro-hive/maestro/internal/models/wire"
	"github.com/maestro-hive/maestro/internal/platform/httpserver"
)

// Provider is a provider of models.
type Provider struct {
	// Name is the first segment of its paths at the gateway.
	Name string
	API  wire.API
	// BaseURL is the parameter of [wire.API.Base].
	BaseURL string
	// Key is the API key, and KeyError why it cannot be had. An empty key is not sent.
	Key      string
	KeyError error
	// Models are the models that may be called, with the prices of their tokens; nil: all, at unknown prices.
	Models cost.PriceList
	Limits Limits
}

// Limits hold for the calls of all attempts together. Zero is no limit.
type Limits struct {
	// RequestsPerMinute and TokensPerMinute count paid calls and their tokens.
	RequestsPerMinute, TokensPerMinute int64
	// Concurrent is how many paid calls are in flight at a time.
	Concurrent int64
}

// Attempt is the attempt that makes calls.
type Attempt struct {
	// Agent is the name of its agent.
	Agent string
	Calls session.Calls
	// Breaker stops calls to providers that fail; nil: there is none.
	Breaker session.CallBreaker
	// Waits gets the waits for what others have; see [Options.Patience].
	Waits *session.PausedTime
	// Providers are the names of the providers that it may call.
	Providers []string
	// Offline: what has a provider reach the web, like a search, is refused; see [wire.Web].
	Offline bool
	// Mask replaces secrets in a text. An answer with one is not stored.
	Mask func(string) string
	// Log gets the transcript of the calls, see package transcript; nil: none is written. Secrets in it
	// are masked, control characters are not removed.
	Log io.Writer
	// Continues: the program may continue the conversation of an earlier attempt. What that attempt
	// wrote to the transcript is not written again.
	Continues bool
	// Failed is called once, with a failure that ends the attempt. The program has received the
	// error in the format of its provider. Failed must not call Close of the attempt's [Access],
	// except in another goroutine.
	Failed func(f *failures.Failure)
}

// Options are the settings and bounds of a gateway. Zero is the default of a bound.
type Options struct {
	// Transport makes the calls to providers.
	Transport http.RoundTripper
	Now       func() time.Time
	Log       *slog.Logger
	// Patience is the longest wait before the first byte; 1 minute by default.
	Patience time.Duration
	// FirstToken is how long a provider may take until the first token of an answer, 10 minutes by default, and
	// Idle how long it may send nothing of the answer after that, 5 minutes by default.
	FirstToken, Idle time.Duration
	// MaxRequest and MaxAnswer bound the bodies, in bytes: 32 MB and 64 MB by default.
	MaxRequest, MaxAnswer int64
}

// Gateway is an HTTP server for agent programs.
type Gateway struct {
	o      Options
	server *http.Server

	mu        sync.Mutex
	providers map[string]*provider
	open      map[*Access]struct{}
	scales    map[string]*wire.Scale
}

// New returns a gateway without providers. Close ends it.
func New(o Options) *Gateway {
	o.Patience = cmp.Or(o.Patience, time.Minute)
	o.FirstToken, o.Idle = cmp.Or(o.FirstToken, 10*time.Minute), cmp.Or(o.Idle, 5*time.Minute)
	o.MaxRequest, o.MaxAnswer = cmp.Or(o.MaxRequest, 32<<20), cmp.Or(o.MaxAnswer, 64<<20)
	g := &Gateway{o: o, providers: map[string]*provider{}, open: map[*Access]struct{}{}, scales: map[string]*wire.Scale{}}
	g.server = &http.Server{
		Handler: http.HandlerFunc(g.serve), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelError), // panics
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, accessKey{}, c.(ownConn).access) //nolint:forcetypeassert // as [ownListener] has made it
		},
	}
	return g
}

// Use replaces the providers. Calls in flight continue. Counts are kept for limits that do not change.
func (g *Gateway) Use(providers []Provider) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.providers
	g.providers = map[string]*provider{}
	for _, p := range providers {
		limits := newLimiter(p.Limits)
		if old := before[p.Name]; old != nil && old.Limits == p.Limits {
			limits = old.limits
		}
		g.providers[p.Name] = &provider{Provider: p, limits: limits, secret: secrets.New([]secrets.Secret{{Value: p.Key}})}
	}
}

// provider is a provider with the state of its limits.
type provider struct {
	Provider
	limits *limiter
	// secret replaces the key in the provider's answers.
	secret *secrets.Set
}

// Serve accepts connections of the attempt's programs until the listener, the access or the gateway is
// closed: then it returns nil. Its token is valid at these connections only, so a program of another
// room cannot use it.
func (a *Access) Serve(l net.Listener) error {
	defer context.AfterFunc(a.ctx, func() { _ = l.Close() })()
	err := a.gateway.server.Serve(ownListener{httpserver.ForRoom(l, nil), a})
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// accessKey is the context key of a connection's [Access].
type accessKey struct{}

// ownListener accepts the connections of one attempt.
type ownListener struct {
	net.Listener
	access *Access
}

// Accept waits for the next connection.
func (l ownListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return ownConn{c, l.access}, nil
}

// ownConn is a connection of an attempt.
type ownConn struct {
	net.Conn
	access *Access
}

// Close ends all attempts and connections.
func (g *Gateway) Close() error {
	g.mu.Lock()
	open := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	for _, a := range open {
		a.Close()
	}
	return g.server.Close()
}

const (
	// maxCalls is how many requests of an attempt are in flight at a time.
	maxCalls = 32
	// maxLarge bounds the bodies of an attempt's requests in memory, in multiples of MaxRequest.
	maxLarge = 4
)

// Access is the access of one attempt to the gateway.
type Access struct {
	// Token is the program's substitute for a key.
	Token string

	attempt     Attempt
	gateway     *Gateway
	transcriber *transcriber
	slots       chan struct{}
	// denied notes once that a request had another token.
	denied sync.Once
	// bodies bounds the bytes of request bodies in memory.
	bodies *semaphore.Weighted
	ctx    context.Context //nolint:containedctx // it ends the calls of all requests
	cancel context.CancelFunc

	// stalled is the longest time without progress at the end of a call that got no whole answer.
	stalled atomic.Int64

	// holding is how many of its calls have a place at their provider.
	holding atomic.Int64

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
	failed sync.Once
	// booked is the cost of the calls, and stored that of the stored answers that were delivered again. uncertain: the cost
	// of some call is not known, or whether its answer has reached the program.
	booked, stored cost.Usage
	uncertain      bool
}

// Open gives an attempt access until Close. Calls inherit the context's values, not its cancellation.
func (g *Gateway) Open(ctx context.Context, a Attempt) *Access {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	access := &Access{
		Token: "maestro-" + base64.RawURLEncoding.EncodeToString(random), attempt: a, gateway: g,
		transcriber: newTranscriber(a, g.o.Now), slots: make(chan struct{}, maxCalls),
		bodies: semaphore.NewWeighted(maxLarge * g.o.MaxRequest),
	}
	access.ctx, access.cancel = context.WithCancel(context.WithoutCancel(ctx))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[access] = struct{}{}
	return access
}

// URL returns the address of a provider for the program. address is the address of the gateway,
// like http://127.0.0.1:8080.
func (a *Access) URL(address, provider string) (string, error) {
	p := a.gateway.providerFor(a, provider)
	if p == nil {
		return "", fmt.Errorf("provider %q not found; name one of the worker file's providers", provider)
	}
	return p.API.ClientBase(address + "/" + provider), nil
}

// Stalled returns for how long the provider had sent nothing of an answer when a call ended without it, at most.
func (a *Access) Stalled() time.Duration { return time.Duration(a.stalled.Load()) }

// noteStall notes a call that ends without a whole answer, by the time of its last progress.
func (a *Access) noteStall(since time.Time) {
	for stall := int64(a.gateway.o.Now().Sub(since)); ; {
		before := a.stalled.Load()
		if before >= stall || a.stalled.CompareAndSwap(before, stall) {
			return
		}
	}
}

// Bill returns the booked cost of the calls so far, and the cost of the answers that the program has received. exact: both
// are known.
func (a *Access) Bill() (booked, answered cost.Usage, exact bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.booked, a.booked.Add(a.stored), !a.uncertain
}

// addToBill adds costs to the bill.
func (a *Access) addToBill(booked, stored cost.Usage, uncertain bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.booked, a.stored, a.uncertain = a.booked.Add(booked), a.stored.Add(stored), a.uncertain || uncertain
}

// undelivered notes that the program has not received an answer: it gets it when it repeats the request.
func (a *Access) undelivered(call string) {
	a.addToBill(cost.Usage{}, cost.Usage{}, true)
	a.attempt.Calls.Undelivered(call)
}

// Wait returns when no request of the attempt is in flight: the transcript is complete then. The
// program must have ended.
func (a *Access) Wait() { a.calls.Wait() }

// Close makes the token invalid, cancels the attempt's calls, and returns when they are booked.
func (a *Access) Close() {
	a.gateway.mu.Lock()
	delete(a.gateway.open, a)
	a.gateway.mu.Unlock()
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.calls.Wait()
}

// track registers a request of the attempt until leave. It fails after Close.
func (a *Access) track() (leave func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false
	}
	a.calls.Add(1)
	return a.calls.Done, true
}

// beginWait begins a wait for others until end is called: not for a call of the attempt itself, which could prolong it.
func (a *Access) beginWait() (end func()) {
	if a.holding.Load() > 0 {
		return func() {}
	}
	return a.attempt.Waits.Begin()
}

// fail reports a failure that ends the attempt, once.
func (a *Access) fail(f *failures.Failure) {
	a.failed.Do(func() { a.attempt.Failed(f) })
}

// providerFor returns a provider that an attempt may call; nil: there is none of that name.
func (g *Gateway) providerFor(a *Access, name string) *provider {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(a.attempt.Providers, name) {
		return nil
	}
	return g.providers[name]
}

// api returns the API of a provider, for the format of errors.
func (g *Gateway) api(name string) wire.API {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.providers[name]; p != nil {
		return p.API
	}
	return wire.OpenAI
}

// Scale returns what was learned of how a provider counts the tokens of an agent.
func (g *Gateway) Scale(agent, provider, model string) *wire.Scale {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := agent + "\x00" + provider + "\x00" + model
	if g.scales[name] == nil {
		if len(g.scales) >= 1024 { // a hostile program names any model
			clear(g.scales)
		}
		g.scales[name] = &wire.Scale{}
	}
	return g.scales[name]
}
