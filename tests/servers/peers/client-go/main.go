// Command client-go-candidate is a candidate that uses client-go's leader election as controllers
// do, for tests of mixed Lease elections.
//
// It writes one JSON object per line to standard output, each with the time on CLOCK_BOOTTIME. klog
// writes to standard error, with -v=5 one line per renewal. The candidate exits when it loses the
// Lease, as controllers do, or after SIGTERM.
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "path of the kubeconfig")
	namespace  = flag.String("namespace", "", "namespace of the Lease (default that of the kubeconfig)")
	lease      = flag.String("lease", "", "name of the Lease")
	identity   = flag.String("identity", "", "identity of this candidate (default the host name and a UUID, as controllers do)")
	listen     = flag.String("listen", "", "address for an application's requests (default none)")
	duration   = flag.Duration("lease-duration", 15*time.Second, "client-go's LeaseDuration, in whole seconds")
	deadline   = flag.Duration("renew-deadline", 10*time.Second, "client-go's RenewDeadline")
	period     = flag.Duration("retry-period", 2*time.Second, "client-go's RetryPeriod")
	release    = flag.Bool("release-on-cancel", false, "client-go's ReleaseOnCancel")
)

// event is one line of output, or the answer to an application's request.
type event struct {
	BoottimeNanos int64  `json:"boottime_ns"`
	Event         string `json:"event"`
	Leader        string `json:"leader,omitempty"`
	Listen        string `json:"listen,omitempty"`
	Identity      string `json:"identity,omitempty"`
	// IsLeader is client-go's view. Working is true until the work's context is canceled.
	IsLeader *bool `json:"is_leader,omitempty"`
	Working  *bool `json:"working,omitempty"`
}

func (e event) now() event {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		log.Fatal(err)
	}
	e.BoottimeNanos = now.Nano()
	return e
}

// report writes one line. The logger's lock keeps the lines of goroutines apart.
func report(e event) {
	line, err := json.Marshal(e.now())
	if err != nil {
		log.Fatal(err)
	}
	lines.Print(string(line))
}

var lines = log.New(os.Stdout, "", 0)

func main() {
	klog.InitFlags(nil)
	flag.Parse()
	if *identity == "" {
		*identity = newIdentity()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	var working atomic.Bool
	var work sync.Mutex // held while the work runs
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock(),
		LeaseDuration:   *duration,
		RenewDeadline:   *deadline,
		RetryPeriod:     *period,
		ReleaseOnCancel: *release,
		Name:            *lease,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				work.Lock()
				defer work.Unlock()
				working.Store(true)
				report(event{Event: "started_leading"})
				<-ctx.Done()
				report(event{Event: "work_cancelled"})
				working.Store(false)
			},
			OnStoppedLeading: func() { report(event{Event: "stopped_leading"}) },
			OnNewLeader:      func(leader string) { report(event{Event: "new_leader", Leader: leader}) },
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if *listen != "" {
		answer(elector, &working)
	}
	elector.Run(ctx)
	work.Lock() // lets the work report its end
	if ctx.Err() == nil {
		os.Exit(1) // lost the Lease
	}
}

// newIdentity returns an identity that no other run of this Pod has. With one of an earlier run,
// client-go would lead at once, without waiting for the promises of that run.
func newIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	return host + "_" + string(uuid.NewUUID())
}

// lock returns the lock that controllers use, with the timeouts that client-go recommends.
func lock() resourcelock.Interface {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: *kubeconfig}
	overrides := &clientcmd.ConfigOverrides{Context: api.Context{Namespace: *namespace}}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	leaseNamespace, _, err := loader.Namespace()
	if err != nil {
		log.Fatal(err)
	}
	config, err := loader.ClientConfig()
	if err != nil {
		log.Fatal(err)
	}
	config.QPS = -1 // the default of five per second would distort the short durations of tests
	id := resourcelock.ResourceLockConfig{Identity: *identity}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, leaseNamespace, *lease, id, config, *deadline)
	if err != nil {
		log.Fatal(err)
	}
	return lock
}

// answer serves every GET as a sidecar would: 200 while the work runs, else 503.
func answer(elector *leaderelection.LeaderElector, working *atomic.Bool) {
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	report(event{Event: "listening", Listen: listener.Addr().String(), Identity: *identity})
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		isLeader, works := elector.IsLeader(), working.Load()
		body := event{Event: "asked", Leader: elector.GetLeader(), IsLeader: &isLeader, Working: &works}
		if !works {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		json.NewEncoder(w).Encode(body.now())
	}))
}
