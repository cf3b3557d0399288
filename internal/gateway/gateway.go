package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
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
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/maestro-hive/maestro/internal/cost"
	"github.com/maestro-hive/maestro/internal/failures"
	"github.com/maestro-hive/maestro/internal/session"
	"github.com/maestro-hive/maestro/internal/spec"
	"github.com/maestro-hive/maestro/internal/wire"
)

// Provider is where calls are passed on to.
type Provider struct {
	// Name is the first segment of the paths that lead to it.
	Name string
	API  wire.API
	// BaseURL is as [wire.API.Base] takes it.
	BaseURL string
	// Key returns the API key; it is asked before each call. An empty key is sent to nobody.
	Key func() (string, error)
	// Prices returns what the tokens of a model cost; nil: that is unknown. An error refuses
	// the model.
	Prices func(model string) (*cost.Prices, error)
	Limits Limits
}

// Limits hold for the calls of all attempts together. Zero is no limit.
type Limits struct {
	// RequestsPerMinute and TokensPerMinute count paid calls and their tokens.
	RequestsPerMinute, TokensPerMinute int64
	// Concurrent is how many paid calls are under way at a time.
	Concurrent int64
}

// Account pays for the calls of an attempt; a [session.Calls] is one.
type Account interface {
	Stored(ctx context.Context, turn int, request spec.Digest) (*session.StoredTurn, error)
	Undelivered(call int64)
	Begin(ctx context.Context, plan session.CallPlan) (session.Call, error)
}

// Attempt is whose calls are passed on.
type Attempt struct {
	// Agent is the name of its agent.
	Agent   string
	Account Account
	// Breaker stops calls to providers that fail; nil: nothing does.
	Breaker session.CallBreaker
	// Providers are the names of those that it may call.
	Providers []string
	// Mask replaces secrets in a text. An answer with one is not stored.
	Mask func(string) string
	// Log gets the transcript of the calls, see package transcript; nil: nobody does. Secrets in it
	// are masked, control characters are not removed.
	Log io.Writer
	// Continues: the program may go on with the conversation of an earlier attempt, which is not
	// written again.
	Continues bool
	// Failed is told, once, of a failure that ends the attempt: the program has got the error
	// in its provider's words. It may call Close of the attempt's [Access] in another goroutine only.
	Failed func(f *failures.Failure)
}

// Options bound what the gateway does. Zero stands for the default of a bound.
type Options struct {
	// Transport carries the calls to providers.
	Transport http.RoundTripper
	Now       func() time.Time
	Log       *slog.Logger
	// Patience is the longest wait before the first byte; 1 minute by default.
	Patience time.Duration
	// FirstByte is how long a provider may take to begin an answer, 10 minutes by default, and
	// Idle how long it may send nothing after that, 5 minutes by default.
	FirstByte, Idle time.Duration
	// MaxRequest and MaxAnswer bound the bodies, in bytes: 32 MB and 64 MB by default.
	MaxRequest, MaxAnswer int64
}

// Gateway is an HTTP server for agent programs.
type Gateway struct {
	o      Options
	server *http.Server

	mu        sync.Mutex
	providers map[string]*provider
	open      map[[sha256.Size]byte]*Access
	scales    map[string]*wire.Scale
}

// New returns a gateway without providers. Close ends it.
func New(o Options) *Gateway {
	o.Patience = orElse(o.Patience, time.Minute)
	o.FirstByte, o.Idle = orElse(o.FirstByte, 10*time.Minute), orElse(o.Idle, 5*time.Minute)
	o.MaxRequest, o.MaxAnswer = orElse(o.MaxRequest, 32<<20), orElse(o.MaxAnswer, 64<<20)
	g := &Gateway{o: o, providers: map[string]*provider{}, open: map[[sha256.Size]byte]*Access{}, scales: map[string]*wire.Scale{}}
	g.server = &http.Server{
		Handler: http.HandlerFunc(g.serve), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelError), // panics
	}
	return g
}

func orElse[T int64 | time.Duration](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}

// Use replaces the providers. Calls under way go on. What was counted towards limits that stay is kept.
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
		g.providers[p.Name] = &provider{Provider: p, limits: limits}
	}
}

// provider is a provider with what its calls have used.
type provider struct {
	Provider
	limits *limiter
}

// Serve accepts connections until the listener or the gateway is closed, of which it returns
// no error. It may be called for several listeners.
func (g *Gateway) Serve(l net.Listener) error {
	err := g.server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Close ends all attempts and connections.
func (g *Gateway) Close() error {
	g.mu.Lock()
	open := slices.Collect(maps.Values(g.open))
	g.mu.Unlock()
	for _, a := range open {
		a.Close()
	}
	return g.server.Close()
}

const (
	// maxCalls is how many requests of an attempt are under way at a time.
	maxCalls = 32
	// maxLarge is how many of the longest requests are in memory at a time for an attempt, or as many bytes of shorter ones.
	maxLarge = 4
)

// Access is what an attempt reaches the gateway by.
type Access struct {
	// Token is what the program has in the place of a key.
	Token string

	attempt  Attempt
	gateway  *Gateway
	recorder *recorder
	id       [sha256.Size]byte
	slots    chan struct{}
	// bodies are the bytes of requests.
	bodies *semaphore.Weighted
	ctx    context.Context //nolint:containedctx // it ends the calls of all requests
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
	failed sync.Once
}

// Open gives an attempt access until Close. Calls have the values of the context, not its end.
func (g *Gateway) Open(ctx context.Context, a Attempt) *Access {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	access := &Access{Token: "maestro-" + base64.RawURLEncoding.EncodeToString(random), attempt: a, gateway: g, recorder: newRecorder(a, g.o.Now), slots: make(chan struct{}, maxCalls), bodies: semaphore.NewWeighted(maxLarge * g.o.MaxRequest)}
	access.id = sha256.Sum256([]byte(access.Token))
	access.ctx, access.cancel = context.WithCancel(context.WithoutCancel(ctx))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[access.id] = access
	return access
}

// URL is what the program is given as the address of a provider, where the gateway is reached at
// an address like http://127.0.0.1:8080.
func (a *Access) URL(address, provider string) (string, error) {
	p := a.gateway.provider(a, provider)
	if p == nil {
		return "", fmt.Errorf("provider %q not found; name one of the worker file's providers", provider)
	}
	return p.API.ClientBase(address + "/" + provider), nil
}

// Wait returns when no request of the attempt is under way. The program must have ended: the
// transcript is complete then.
func (a *Access) Wait() { a.calls.Wait() }

// Close makes the token invalid, cancels the attempt's calls, and returns when they are booked.
func (a *Access) Close() {
	a.gateway.mu.Lock()
	delete(a.gateway.open, a.id)
	a.gateway.mu.Unlock()
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.calls.Wait()
}

// enter counts a request of the attempt in, until leave. It fails after Close.
func (a *Access) enter() (leave func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false
	}
	a.calls.Add(1)
	return a.calls.Done, true
}

// fail tells of a failure that ends the attempt.
func (a *Access) fail(f *failures.Failure) {
	a.failed.Do(func() { a.attempt.Failed(f) })
}

// access finds an attempt by its token. The token is compared by its hash, so that the time
// that it takes tells nothing of other tokens.
func (g *Gateway) access(token string) *Access {
	id := sha256.Sum256([]byte(token))
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open[id]
}

// provider returns one that an attempt may call; nil: there is none of that name.
func (g *Gateway) provider(a *Access, name string) *provider {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(a.attempt.Providers, name) {
		return nil
	}
	return g.providers[name]
}

// scale is what was learned of how a provider counts for an agent.
func (g *Gateway) scale(agent string, p *provider, model string) *wire.Scale {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := agent + "\x00" + p.Name + "\x00" + model
	if g.scales[name] == nil {
		if len(g.scales) >= 1024 { // a hostile program names any model
			clear(g.scales)
		}
		g.scales[name] = &wire.Scale{}
	}
	return g.scales[name]
}
