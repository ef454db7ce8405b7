package baton

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"
)

// ErrRevoked means that the term ended before the work did. It is the cause of the work's canceled
// context, and [Run] returns it.
var ErrRevoked = errors.New("leadership was revoked")

// period is the longest time between two looks at the clock: timers stop during a suspend.
const period = 100 * time.Millisecond

// A Term is the right to act under one token, for one piece of work.
type Term struct{ t *term }

// Token returns the fencing token. Pass it to every resource that you write to.
func (t Term) Token() Token { return t.t.token }

// Remaining returns how long it is until the work must stop, by the last promise, and 0 or less if
// it must stop now.
func (t Term) Remaining() time.Duration { return t.t.remaining() }

// Check returns an error unless a step may begin: [ErrRevoked], or the cause if the context of [Run]
// has ended. It reads the clock, and asks nothing.
func (t Term) Check() error {
	if t.Remaining() <= 0 {
		return ErrRevoked
	}
	return context.Cause(t.t.ctx)
}

// A Change tells that leadership was granted or revoked.
type Change struct {
	Granted bool
	Term    Term
}

// Run is [Client.Run] of the [DefaultClient].
func Run(ctx context.Context, work func(context.Context, Term) error) error {
	return DefaultClient.Run(ctx, work)
}

// Changes is [Client.Changes] of the [DefaultClient].
func Changes(ctx context.Context) iter.Seq[Change] { return DefaultClient.Changes(ctx) }

// Run waits until this process leads, and runs the work once. It cancels the work's context one
// step before the last promise ends, or at once if the sidecar says that this process leads no
// more. When the work has returned, its promises are voided.
//
// Run returns the error of the work, or [ErrRevoked], joined with that error, if the term ended
// first. If ctx ends, the work is canceled, and its promise is renewed until it returns.
func (c *Client) Run(ctx context.Context, work func(context.Context, Term) error) error {
	term, err := c.lead(ctx)
	if err != nil {
		return err
	}
	defer term.finish(true)
	err = work(term.ctx, Term{term})
	switch {
	case term.remaining() > 0:
		return err
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrRevoked):
		return ErrRevoked
	default:
		return fmt.Errorf("%w: %w", ErrRevoked, err)
	}
}

// Changes tells when leadership is granted and revoked, until ctx ends. A change is news, not a
// license to act: ask its term before each step. The promise is not voided at the end, because
// the client cannot know when the work has stopped. If the URL is unusable, it ends at once, and
// slog says why.
func (c *Client) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for c.change(ctx, yield) {
		}
	}
}

// change tells of one term, and whether there may be more.
func (c *Client) change(ctx context.Context, yield func(Change) bool) bool {
	term, err := c.lead(ctx)
	if err != nil {
		if ctx.Err() == nil {
			slog.Error("baton: cannot ask", "error", err)
		}
		return false
	}
	defer term.finish(false)
	if !yield(Change{true, Term{term}}) {
		return false
	}
	<-term.ctx.Done()
	return yield(Change{false, Term{term}})
}

// term is shared by the work, a goroutine that asks, and one that watches the clock.
type term struct {
	client *Client
	asker  string
	token  Token
	// ctx is the work's.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	asking  context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	cancelAt time.Duration
	ended    bool
}

// lead waits until this process leads, and starts the term.
func (c *Client) lead(ctx context.Context) (*term, error) {
	if _, err := c.base(); err != nil {
		return nil, err
	}
	var random [16]byte
	rand.Read(random[:])
	t := &term{client: c, asker: hex.EncodeToString(random[:])}
	answer, err := t.wait(ctx)
	if err != nil {
		return nil, err
	}
	t.token, t.cancelAt = answer.Token, c.cancelAt(answer)
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.asking, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	t.running.Add(2)
	go t.renew(answer.validFor)
	go t.watch()
	return t, nil
}

// wait asks until this process leads and a step may begin.
func (t *term) wait(ctx context.Context) (Answer, error) {
	revision := int64(noRevision)
	for {
		began := now()
		r := t.client.ask(ctx, t.asker, revision)
		if ctx.Err() != nil {
			return Answer{}, context.Cause(ctx)
		}
		if r.err == nil && t.client.cancelAt(r.Answer) > now() {
			return r.Answer, nil
		}
		// The answer to a long poll has usually ended. It is news: ask again, without wait.
		if revision != noRevision && r.err == nil {
			revision = noRevision
			continue
		}
		revision = r.revision
		sleep(ctx, t.client.poll()-(now()-began))
	}
}

// cancelAt returns when work under a promise has to be canceled.
func (c *Client) cancelAt(answer Answer) time.Duration {
	step := cmp.Or(c.Step, answer.validFor/4)
	if step >= answer.validFor {
		slog.Warn("baton: a step does not fit a promise", "step", step, "promise", answer.validFor)
	}
	return answer.until - step
}

// renew asks four times per promise, and sooner after a failure.
func (t *term) renew(validFor time.Duration) {
	defer t.running.Done()
	defer t.end()
	usual, pause := validFor/4, validFor/4
	for sleep(t.asking, pause) {
		r := t.client.ask(t.asking, t.asker, noRevision)
		switch {
		case errors.Is(r.err, ErrNotLeading) || r.err == nil && r.Token != t.token:
			return
		case r.err == nil && t.extend(r.Answer):
			usual, pause = r.validFor/4, r.validFor/4
		default:
			pause = min(usual/2, t.client.poll())
		}
	}
}

// extend takes a promise. It tells whether a step may begin.
func (t *term) extend(answer Answer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A term that has lapsed stays lapsed, also before its goroutine has noticed.
	if t.ended || t.cancelAt <= now() {
		return false
	}
	t.cancelAt = max(t.cancelAt, t.client.cancelAt(answer))
	return true
}

// watch ends the term on time. It never waits for a request.
func (t *term) watch() {
	defer t.running.Done()
	defer t.end()
	for left := t.remaining(); left > 0 && sleep(t.asking, min(left, period)); {
		left = t.remaining()
	}
}

// end makes sure that from now on no step begins.
func (t *term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	t.cancel(ErrRevoked)
	t.stop()
}

// finish ends the asking, and then voids its promises: a late request must not book another.
func (t *term) finish(saysDone bool) {
	t.end()
	t.running.Wait()
	if saysDone {
		t.client.done(context.WithoutCancel(t.ctx), t.asker, t.token)
	}
}

func (t *term) remaining() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return 0
	}
	return t.cancelAt - now()
}

// sleep waits for so long. It tells whether the context still holds.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return ctx.Err() == nil
	}
}
