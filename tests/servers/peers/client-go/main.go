// Command client-go-candidate is one real candidate of client-go's leader election, as thousands of
// controllers run it, for the tests to put before, behind and beside the sidecar.
//
// It writes one JSON object a line to standard output, each with the time on CLOCK_BOOTTIME, and klog's lines to
// standard error: with -v=5 one for each renewal. It ends when it lost the lease, as controllers do, or after SIGTERM.
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
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "how to reach the API server")
	namespace  = flag.String("namespace", "", "where the Lease is, by default where the kubeconfig says")
	lease      = flag.String("lease", "", "the Lease's name")
	identity   = flag.String("identity", "", "this candidate's name")
	listen     = flag.String("listen", "", "where an application may ask, nowhere by default")
	duration   = flag.Duration("lease-duration", 15*time.Second, "client-go's LeaseDuration: whole seconds")
	deadline   = flag.Duration("renew-deadline", 10*time.Second, "client-go's RenewDeadline")
	period     = flag.Duration("retry-period", 2*time.Second, "client-go's RetryPeriod")
	release    = flag.Bool("release-on-cancel", false, "client-go's ReleaseOnCancel")
)

// event is one line of output, and the answer to an application's question too.
type event struct {
	BoottimeNanos int64  `json:"boottime_ns"`
	Event         string `json:"event"`
	Leader        string `json:"leader,omitempty"`
	Listen        string `json:"listen,omitempty"`
	Identity      string `json:"identity,omitempty"`
	// IsLeader is what client-go says of itself, Working whether the work it started is not yet told to stop.
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

// tell writes one line at once: log's own lock keeps those of several goroutines apart.
func tell(e event) {
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	var working atomic.Bool
	var work sync.Mutex // held while the work goes on
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
				tell(event{Event: "started_leading"})
				<-ctx.Done()
				tell(event{Event: "work_cancelled"})
				working.Store(false)
			},
			OnStoppedLeading: func() { tell(event{Event: "stopped_leading"}) },
			OnNewLeader:      func(leader string) { tell(event{Event: "new_leader", Leader: leader}) },
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	if *listen != "" {
		answer(elector, &working)
	}
	elector.Run(ctx)
	work.Lock() // its last word is worth more than an early end
	if ctx.Err() == nil {
		os.Exit(1) // lost, not asked to stop
	}
}

// lock is the lock that controllers make, with the time-outs that client-go recommends for it.
func lock() resourcelock.Interface {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: *kubeconfig}
	overrides := &clientcmd.ConfigOverrides{Context: api.Context{Namespace: *namespace}}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	where, _, err := loader.Namespace()
	if err != nil {
		log.Fatal(err)
	}
	config, err := loader.ClientConfig()
	if err != nil {
		log.Fatal(err)
	}
	config.QPS = -1 // the default of five a second would distort times that are scaled down
	id := resourcelock.ResourceLockConfig{Identity: *identity}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, where, *lease, id, config, *deadline)
	if err != nil {
		log.Fatal(err)
	}
	return lock
}

// answer says to every GET what an application beside this candidate could learn: with 200 while the work goes on, as a
// sidecar answers while it leads, and else with 503.
func answer(elector *leaderelection.LeaderElector, working *atomic.Bool) {
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	tell(event{Event: "listening", Listen: listener.Addr().String(), Identity: *identity})
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		isLeader, works := elector.IsLeader(), working.Load()
		said := event{Event: "asked", Leader: elector.GetLeader(), IsLeader: &isLeader, Working: &works}
		if !works {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		json.NewEncoder(w).Encode(said.now())
	}))
}
