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
)

// transport uses each connection once, because after a timeout a late answer would be read as the
// answer to the next request. It uses no proxy.
var transport = &http.Transport{
	DisableKeepAlives:      true,
	DisableCompression:     true,
	MaxResponseHeaderBytes: maxBodyBytes,
}

var httpClient = http.Client{
	Transport:     transport,
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
	status, body, err := c.send(ctx, http.MethodGet, "/leader", query, timeout)
	if err != nil {
		return reply{revision: noRevision, err: err}
	}
	if waits && status == http.StatusBadRequest {
		c.refusesWait.Store(true)
	}
	return c.checked(read(status, body, asked))
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
	base := strings.TrimRight(cmp.Or(c.URL, os.Getenv("BATON_URL"), defaultURL), "/")
	if !strings.HasPrefix(base, "http://") {
		return 0, nil, fmt.Errorf("not the URL of a sidecar: %q: write http://HOST:PORT", base)
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
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBodyBytes+1))
	if err == nil && len(body) > maxBodyBytes {
		err = errors.New("the body is larger than 64 KiB")
	}
	return response.StatusCode, body, err
}
