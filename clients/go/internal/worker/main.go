// Command worker is what clients/testing/run.py judges. clients/testing/README.md describes it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	baton "baton.test/clients/go"
)

type worker struct {
	log     *os.File
	options map[string]int
	client  *baton.Client
}

func main() {
	file, err := os.OpenFile(os.Args[2], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	w := &worker{log: file, options: map[string]int{"terms": -1, "signal": 1, "asks": 1}}
	for _, option := range os.Args[3:] {
		key, value, _ := strings.Cut(option, "=")
		if w.options[key], err = strconv.Atoi(value); err != nil {
			log.Fatal(err)
		}
	}
	w.client = &baton.Client{
		Step:    w.duration("step_ms"),
		Timeout: w.duration("timeout_ms"),
		Poll:    w.duration("poll_ms"),
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch os.Args[1] {
	case "run":
		w.run(ctx)
	case "ask":
		w.ask(ctx)
	case "changes":
		w.changes(ctx)
	}
}

func (w *worker) duration(key string) time.Duration {
	return time.Duration(w.options[key]) * time.Millisecond
}

func (w *worker) write(token baton.Token, event string, at ...int64) {
	line := fmt.Sprintln(strings.Trim(fmt.Sprint(token, " ", event, " ", at), "]"))
	if _, err := w.log.WriteString(strings.Replace(line, "[", "", 1)); err != nil {
		log.Fatal(err)
	}
}

func (w *worker) run(ctx context.Context) {
	for terms := w.options["terms"]; terms != 0 && ctx.Err() == nil; terms-- {
		err := w.client.Run(ctx, w.work)
		if err != nil && ctx.Err() == nil && !errors.Is(err, baton.ErrRevoked) {
			log.Fatal(err)
		}
	}
}

func (w *worker) work(ctx context.Context, term baton.Term) error {
	w.act(term, "start", boottime())
	started, busy := time.Now(), w.duration("busy_ms")
	for w.options["work_ms"] == 0 || time.Since(started) < w.duration("work_ms") {
		at := boottime()
		obeys, checks := w.options["signal"] == 1, w.options["check"] == 1
		if obeys && ctx.Err() != nil || checks && term.Check() != nil {
			w.write(term.Token(), "cancel", boottime())
			break
		}
		w.act(term, "beat", at)
		for spinning := time.Now(); time.Since(spinning) < busy; {
		}
		busy = 0
		signal := ctx.Done()
		if !obeys {
			signal = nil
		}
		select {
		case <-signal:
		case <-time.After(10 * time.Millisecond):
		}
	}
	time.Sleep(w.duration("linger_ms"))
	w.write(term.Token(), "stop", boottime())
	return ctx.Err()
}

// act writes a start or a beat, and until when the library allows it.
func (w *worker) act(term baton.Term, event string, at int64) {
	var until int64
	if now, left := boottime(), term.Remaining(); left > 0 {
		until = now + left.Nanoseconds()
	}
	w.write(term.Token(), event, at, until)
}

func (w *worker) ask(ctx context.Context) {
	for number := range w.options["asks"] {
		if number > 0 {
			time.Sleep(w.duration("poll_ms"))
		}
		answer, err := w.client.Ask(ctx)
		at := boottime()
		if remaining := answer.Remaining(); err == nil && remaining > 0 {
			w.write(answer.Token, "ask", at, at+remaining.Nanoseconds())
		} else {
			w.write("-", "ask", at, 0)
		}
	}
}

func (w *worker) changes(ctx context.Context) {
	for change := range w.client.Changes(ctx) {
		event := "revoked"
		if change.Granted {
			event = "granted"
		}
		w.write(change.Term.Token(), event, boottime())
	}
}

func boottime() int64 {
	var spec syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 7, uintptr(unsafe.Pointer(&spec)), 0)
	return spec.Nano()
}
