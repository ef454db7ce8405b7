// Command etcd-election-candidate is a candidate that uses concurrency.Election of etcd's Go client,
// for the comparison of faults and figures. The work stops when the session ends, as in
// https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Session.Done.
//
// It writes JSON lines with the time on CLOCK_BOOTTIME. After SIGTERM it stops the work, and then
// resigns.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"golang.org/x/sys/unix"
)

var (
	endpoints = flag.String("endpoints", "", "URLs of the members, separated by commas")
	prefix    = flag.String("prefix", "", "prefix of the election's keys")
	identity  = flag.String("identity", "", "identity of this candidate")
	listen    = flag.String("listen", "", "address for an application's requests (default none)")
	ttl       = flag.Int("ttl", 15, "the session's TTL in seconds")
)

// report writes one line.
func report(event, address string) {
	var now unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"event": event, "boottime_ns": now.Nano(), "identity": *identity, "listen": address}))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	// The settings of https://pkg.go.dev/go.etcd.io/etcd/client/v3#section-readme.
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(*endpoints, ","), DialTimeout: 5 * time.Second})
	must(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(*ttl))
	must(err)
	election := concurrency.NewElection(session, *prefix)
	var working atomic.Bool
	answer(election, &working)
	report("campaigning", "")
	campaign, lose := context.WithCancel(ctx)
	go func() { <-session.Done(); lose() }() // Campaign does not watch the session
	must(election.Campaign(campaign, *identity))
	working.Store(true)
	report("started_leading", "")
	select {
	case <-ctx.Done():
	case <-session.Done():
	}
	working.Store(false)
	report("work_cancelled", "")
	if ctx.Err() == nil {
		os.Exit(1) // lost the session
	}
	must(election.Resign(context.Background()))
	session.Close()
}

// answer serves a GET as a sidecar would: 200 while the work runs, else 503. A GET with a query
// returns the leader.
func answer(election *concurrency.Election, working *atomic.Bool) {
	if *listen == "" {
		return
	}
	listener, err := net.Listen("tcp", *listen)
	must(err)
	report("listening", listener.Addr().String())
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := map[string]any{"working": working.Load()}
		if r.URL.RawQuery != "" {
			if leader, err := election.Leader(r.Context()); err == nil {
				body["leader"] = string(leader.Kvs[0].Value)
			}
		}
		if !working.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		json.NewEncoder(w).Encode(body)
	}))
}
