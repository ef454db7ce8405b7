package baton

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// sidecar says leading or not, and counts the requests to /done.
type sidecar struct {
	isFollower atomic.Bool
	done       atomic.Int32
}

func (s *sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/done":
		s.done.Add(1)
		w.WriteHeader(http.StatusNoContent)
	case s.isFollower.Load():
		http.Error(w, `{"standing":"following","is_leader":false}`, http.StatusServiceUnavailable)
	default:
		fmt.Fprint(w, promise)
	}
}

func start(t *testing.T) (*sidecar, *Client) {
	handler := &sidecar{}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return handler, &Client{URL: server.URL, Timeout: 5 * time.Second, Poll: 10 * time.Millisecond}
}

func TestEndOfTheTermCancelsTheWork(t *testing.T) {
	sidecar, client := start(t)
	err := client.Run(context.Background(), func(ctx context.Context, term Term) error {
		if err := term.Check(); err != nil || term.Token() != "7" {
			t.Errorf("token %s: %v", term.Token(), err)
		}
		sidecar.isFollower.Store(true)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrRevoked) || term.Check() == nil {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
		return ctx.Err()
	})
	if err != ErrRevoked || sidecar.done.Load() != 1 {
		t.Errorf("%v, done %d times", err, sidecar.done.Load())
	}
}

func TestRunReturnsTheErrorOfTheWork(t *testing.T) {
	sidecar, client := start(t)
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		got := client.Run(context.Background(), func(context.Context, Term) error { return want })
		if got != want {
			t.Errorf("%v, not %v", got, want)
		}
	}
	err := client.Run(context.Background(), func(ctx context.Context, _ Term) error {
		sidecar.isFollower.Store(true)
		<-ctx.Done()
		return broken
	})
	if !errors.Is(err, ErrRevoked) || !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestRunStopsWaitingWhenItsContextEnds(t *testing.T) {
	sidecar, client := start(t)
	sidecar.isFollower.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := client.Run(ctx, func(context.Context, Term) error { panic("it does not lead") })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestChangesEndWithTheLoop(t *testing.T) {
	sidecar, client := start(t)
	var seen []bool
	for change := range client.Changes(context.Background()) {
		seen = append(seen, change.Granted)
		if !change.Granted {
			break
		}
		sidecar.isFollower.Store(true)
	}
	if len(seen) != 2 || sidecar.done.Load() != 0 {
		t.Errorf("%v, done %d times", seen, sidecar.done.Load())
	}
}

func TestURLsAreChecked(t *testing.T) {
	client := Client{URL: "https://localhost:1"}
	if _, err := client.Ask(context.Background()); !strings.Contains(fmt.Sprint(err), "http://HOST") {
		t.Error(err)
	}
}
