//! The examples at the end of each help text, one constant per subcommand.
//!
//! Pure. Start with [`RUN`].

pub(super) const RUN: &str = "Examples:
  baton run --election orders
  baton run --election orders --backend zookeeper --zookeeper-servers zk-0:2181,zk-1:2181
  baton run --election orders --backend etcd --etcd-endpoints http://etcd-0:2379
  baton run --election orders --backend file --directory /tmp/baton
  curl http://localhost:4040/leader

A flag overrides its environment variable.";

pub(super) const EXEC: &str = "Examples:
  baton exec --election orders -- ./send-invoices --all
  baton exec --election orders --backend file --directory /tmp/baton -- sh -c 'echo $BATON_TOKEN'

The command gets BATON_ELECTION, BATON_TOKEN, BATON_IDENTITY, and BATON_URL. It must stay in the
foreground: processes that it leaves behind are killed when it ends.";

pub(super) const CHECK_CONFIG: &str = "Examples:
  baton check-config --election orders --backend lease
  baton check-config --election orders --backend lease --lease-duration 30s --renew-deadline 20s

Exit codes: 0 valid, 2 errors.";

pub(super) const DOCTOR: &str = "Examples:
  baton doctor --election orders --backend lease --namespace shop
  kubectl exec POD --container baton -- /baton doctor

Exit codes: 0 no failure, 2 wrong flags, files, or settings of the store, 69 the store does not
answer, 70 standard output is closed, 77 it refuses this account.";

pub(super) const STATUS: &str = "Examples:
  baton status
  baton status --listen localhost:4050 --output json

Exit codes: 0 leading, 1 not leading, 69 no answer or not Baton.";

pub(super) const OBSERVE: &str = "Examples:
  baton observe --election orders --backend lease --namespace shop
  baton observe --election orders --backend file --directory /tmp/baton --output json

Ends at SIGINT or SIGTERM. Exit codes: 0 ended by a signal, 2 wrong flags or surroundings, 70
standard output is closed, 77 the store refuses the first read.";

pub(super) const PROBE: &str = "Examples:
  baton probe readyz
  baton probe leader --listen localhost:4050

Exit codes: 0 yes, 1 no, 69 no answer or not Baton.";

pub(super) const STOPPING: &str = "Example, as a preStop hook:
  lifecycle: {preStop: {exec: {command: [/baton, stopping]}}}

Exit codes: 0 every promise expired, 1 refused, 69 no answer or not Baton.";

pub(super) const RESIGN: &str = "Examples:
  baton resign
  baton resign --hold-off 5m --listen localhost:4050

Exit codes: 0 handed over, 1 not leading, refused, or not confirmed, 69 no answer or not Baton.";

pub(super) const RBAC: &str = "Examples:
  baton rbac --election orders --service-account shop --namespace sales | kubectl apply -f -
  baton rbac --election orders --etcd-user shop --namespace sales";

pub(super) const INSTALL: &str = "Example, as an init container:
  args: [install, /opt/baton]

The application's container then runs /opt/baton/baton exec.";

pub(super) const INJECT: &str = "Examples:
  kustomize build . | baton inject --strict | kubectl apply -f -
  baton inject --restart-application never < deployment.yaml
  baton inject --kyverno --image registry.example/baton:0.1.0 | kubectl apply -f -

A Pod template gets the sidecar if it has the label baton/inject: enabled and the annotation
baton/election: NAME. A summary goes to standard error.";

pub(super) const COMPAT: &str = "Example:
  baton compat leader-elector --election=orders --election-namespace=shop --http=localhost:4040

Prints the equivalent baton run command. Does not start while an older sidecar changes its lock.";

pub(super) const COMPLETIONS: &str = "Examples:
  baton completions bash > /etc/bash_completion.d/baton
  baton completions zsh > \"${fpath[1]}/_baton\"
  baton completions fish > ~/.config/fish/completions/baton.fish";

pub(super) const MAN: &str = "Examples:
  baton man > /usr/local/share/man/man1/baton.1
  baton man exec | man -l -";
