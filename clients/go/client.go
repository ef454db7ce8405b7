package baton

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultURL     = "http://localhost:4040"
	defaultTimeout = 500 * time.Millisecond
	defaultPoll    = 500 * time.Millisecond
	// longPoll is how long the sidecar may wait with an answer.
	longPoll     = 30 * time.Second
	maxBodyBytes = 64 << 10
	// warnAfter is how long no sidecar may answer before a warning, and warnAgain before another.
	warnAfter = 5 * time.Second
	warnAgain = time.Minute
)

var sidecarURL = regexp.MustCompile(`^http://([^/?#@:\[]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?/?$`)

// httpClient uses each connection once, because after a timeout a late answer would be read as the
// answer to the next request. It uses no proxy.
var httpClient = http.Client{
	Transport: &http.Transport{
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxBodyBytes,
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// A Client asks one sidecar about one election. Its zero value is ready to use. Set the fields
// before the first call, and do not copy it. Goroutines may share it.
//
// A token smaller than one that the client has seen means not leading. After the store was restored
// from a backup, make a new client.
type Client struct {
	// URL is where the sidecar listens, http://HOST:PORT. Without it, the variable BATON_URL is
	// used, and without that http://localhost:4040.
	URL string
	// Step is how long one step of the work takes at most. Work is canceled so long before a
	// promise ends. The default is a quarter of the promise.
	Step time.Duration
	// Timeout is how long one request may take: 500 ms by default.
	Timeout time.Duration
	// Poll is the pause between two requests while another process leads: 500 ms by default.
	Poll time.Duration

	refusesWait atomic.Bool
	mu          sync.Mutex
	largest     Token
	silentSince time.Duration
	warnNext    time.Duration
}

// DefaultClient is used by [Run], [Ask], and [Changes].
var DefaultClient = &Client{}

// Ask is [Client.Ask] of the [DefaultClient].
func Ask(ctx context.Context) (Answer, error) { return DefaultClient.Ask(ctx) }

// Ask asks once. The answer holds if the error is nil, and until [Answer.Remaining] is 0.
func (c *Client) Ask(ctx context.Context) (Answer, error) {
	r := c.ask(ctx, "", noRevision)
	if r.err == nil && !r.IsLeading() {
		return Answer{}, errors.New("the promise ended before its answer arrived")
	}
	return r.Answer, r.err
}

func (c *Client) timeout() time.Duration { return cmp.Or(c.Timeout, defaultTimeout) }
func (c *Client) poll() time.Duration    { return cmp.Or(c.Poll, defaultPoll) }

// ask asks once. With a revision, a sidecar that knows long polls may wait until it changes.
func (c *Client) ask(ctx context.Context, asker string, revision int64) reply {
	query, timeout := url.Values{}, c.timeout()
	if asker != "" {
		query.Set("asker", asker)
	}
	waits := revision != noRevision && !c.refusesWait.Load()
	if waits {
		timeout += longPoll
		query.Set("wait", longPoll.String())
		query.Set("after", fmt.Sprint(revision))
	}
	asked := now()
	r := reply{revision: noRevision}
	status, body, err := c.send(ctx, http.MethodGet, "/leader", query, timeout)
	if r.err = err; err == nil {
		r = read(status, body, asked)
	}
	if waits && status == http.StatusBadRequest {
		c.refusesWait.Store(true)
	}
	if c.isOverdue(r) {
		base, _ := c.base()
		slog.Warn(fmt.Sprintf(
			"baton: no sidecar answers at %s (%v): start baton, or set BATON_URL", base, r.err))
	}
	return c.checked(r)
}

// checked refuses a token that is smaller than one seen before.
func (c *Client) checked(r reply) reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.err != nil {
		return r
	}
	if r.Token.Compare(c.largest) < 0 {
		err := fmt.Errorf("%w: token %s is smaller than %s", ErrNotLeading, r.Token, c.largest)
		return reply{revision: noRevision, err: err}
	}
	c.largest = r.Token
	return r
}

// isOverdue tells whether no sidecar has answered for so long that the user has to know.
func (c *Client) isOverdue(r reply) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.revision != noRevision {
		c.silentSince = 0
		return false
	}
	c.silentSince = cmp.Or(c.silentSince, now())
	isOverdue := now() >= max(c.silentSince+warnAfter, c.warnNext)
	if isOverdue {
		c.warnNext = now() + warnAgain
	}
	return isOverdue
}

// base returns the URL of the sidecar.
func (c *Client) base() (string, error) {
	base := cmp.Or(c.URL, os.Getenv("BATON_URL"), defaultURL)
	if !sidecarURL.MatchString(base) {
		return base, fmt.Errorf("not the URL of a sidecar: %q: write http://HOST:PORT (BATON_URL)", base)
	}
	return strings.TrimRight(base, "/"), nil
}

// done voids the promises to one asker. Without it, they end a little later.
func (c *Client) done(ctx context.Context, asker string, token Token) {
	query := url.Values{"token": {string(token)}, "asker": {asker}}
	_, _, err := c.send(ctx, http.MethodPost, "/done", query, c.timeout())
	if err != nil {
		slog.Debug("baton: cannot say done", "error", err)
	}
}

// send returns the status and the whole body.
func (c *Client) send(
	ctx context.Context, method, path string, query url.Values, timeout time.Duration,
) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	base, err := c.base()
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, base+path+"?"+query.Encode(), nil)
	if err != nil {
		return 0, nil, err
	}
	if method == http.MethodPost {
		request.Header.Set("Baton-Request", "1")
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return 0, nil, errors.Unwrap(err) // without the URL
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBodyBytes+1))
	if err == nil && len(body) > maxBodyBytes {
		err = errors.New("the body is larger than 64 KiB")
	}
	return response.StatusCode, body, err
}
