// The classical algorithms: what each does, what to predict, and why a run ended as it did. A run
// is named by its algorithm, fault, and number of processes, such as raft.crash.5.

const FAULTS = [
  ["calm", "none"],
  ["crash", "crash"],
  ["loss", "lost messages"],
  ["partition", "partition"],
  ["asymmetric", "one-way partition"],
  ["pause", "pause"],
  ["drift", "drift and partition"],
];
const SIZES = [3, 5, 7, 9];

// What happens in a run under each fault. The fault lasts 3/8 of the run.
const EVENTS = {
  calm: () => "No fault occurs.",
  crash: (at, lasts) => `At ${at} the leader crashes, and it starts again ${lasts} later.`,
  loss: () => "One message in twenty is lost. Over TCP it is sent again and arrives late.",
  partition: (at, lasts) => `At ${at} the leader is partitioned from all others for ${lasts}.`,
  asymmetric: (at, lasts) =>
    `From ${at} on, for ${lasts}, all messages of the leader are lost. It still hears the others.`,
  pause: (at, lasts) =>
    `At ${at} the leader is paused for ${lasts}, as by a long garbage collection.`,
  drift: (at, lasts) =>
    prose`Clocks run a fifth too fast or too slow. At ${at} the leader is partitioned from all
      others for ${lasts}.`,
};

// Why no second process led, where the algorithm does not matter.
const QUIET = {
  calm: "Without a fault one leader stays.",
  crash: "A process that has crashed cannot act, so its successor is alone.",
  loss: "Lost messages led to no second leader here.",
};

// For algorithms whose leader steps down when it hears no majority.
const STEPPED_DOWN =
  "The former leader heard no majority and stepped down before the next one was elected.";
const noticedLate = (number) =>
  prose`The former leader kept leading until it noticed that it heard no majority, or until it ran
    again. The ${number} tells the two leaders apart.`;
// For Baton. No run on this page exceeds its drift bound.
const BEYOND_BOUND = "The clocks were off by more than the configured bound.";

// `alone` says why a second leader was excluded, and `both` why there were two.
const ALGORITHMS = [
  {
    name: "raft",
    title: "Raft",
    rule: prose`Each process waits for a random time to hear a leader. Then it raises its term and
      asks for votes, and a majority elects it.`,
    alone: "The former leader heard of the larger term in time and stepped down.",
    both: prose`The former leader kept leading until it heard of the larger term. Raft promises
      one leader per term, so followers, logs, and resources must compare terms.`,
  },
  {
    name: "raft-etcd",
    title: "Raft with pre-vote",
    rule: prose`Raft as etcd runs it: a process first asks whether it could win, and a leader that
      hears no majority steps down.`,
    alone: STEPPED_DOWN,
    both: noticedLate("term"),
  },
  {
    name: "fle",
    title: "Fast Leader Election",
    rule: prose`ZooKeeper’s servers exchange votes until a majority agrees on the one with the
      newest log. A leader steps down when it hears no majority.`,
    alone: STEPPED_DOWN,
    both: noticedLate("epoch"),
  },
  {
    name: "bully",
    title: "Bully",
    rule: prose`The process with the largest number that answers becomes the coordinator. The
      paper assumes that the network loses nothing and that no process pauses.`,
    alone: "The coordinator answered in time, or it heard of its successor at once.",
    both: prose`The others mistook silence for death and elected a second coordinator. A coordinator
      needs no majority, and two coordinators never contact each other.`,
  },
  {
    name: "lease-equal",
    title: "Lease, equal clocks",
    server: "lock server",
    rule: prose`A server grants a lease of 15 s, and the holder leads for 15 s by its own clock.
      This assumes that all clocks run at one rate.`,
    alone: prose`The holder counts from before its request, so its lease ended by itself before the
        server granted the next one.`,
    both: prose`The holder’s slow clock counted fewer seconds than the server’s fast clock. So the
      server granted the lease again while its holder still led.`,
  },
  {
    name: "lease",
    title: "Lease, drifting clocks",
    server: "lock server",
    rule: prose`A server grants a lease of 15 s, and the holder leads for only 10 s by its own
      clock. This tolerates clocks that are off by a fifth.`,
    alone: prose`The lease ended by itself, by the holder’s own clock, before the server granted the
        next one.`,
    both: "The holder’s clock was off by more than the lease allows for.",
  },
  {
    name: "kafka",
    title: "Lock race (Kafka)",
    server: "ZooKeeper",
    rule: prose`Kafka’s brokers race to create one ephemeral znode. The winner leads until it
      hears that its session has expired.`,
    alone: "The former controller heard of its expired session before it could act again.",
    both: prose`A controller does not count the time of its session, so it kept leading until it
      heard of its successor. Brokers compare the controller’s epoch instead.`,
  },
  {
    name: "ring",
    title: "Ring",
    rule: prose`A number travels around the ring, and a larger one replaces it. The process whose
      own number comes back leads. The papers assume that the ring loses no message.`,
    alone: "The token of the leader kept traveling, so no other process began an election.",
    both: prose`The others closed the ring around the silent leader and elected a second one.
      No process on a ring counts a majority.`,
  },
  {
    name: "sentinel",
    title: "Redis Sentinel",
    rule: prose`Sentinels watch a Redis master. If enough of them find it down, a majority elects
      one of them, and it promotes a replica.`,
    alone: "The former master learned of its demotion before the replica was promoted.",
    both: prose`A master never checks whether it is still the master. Both accepted writes until a
      sentinel reached the old master and demoted it.`,
  },
  {
    name: "stonith",
    title: "STONITH",
    server: "power switch",
    rule: prose`A process that has lost its leader needs a majority. Then it has the power of
      every silent process cut, and waits until that is confirmed, before it leads.`,
    alone: prose`The power of the former leader was cut before the next one acted. A process without
        power cannot even finish a write.`,
    both: "The power switch reported a power-off that had not happened.",
  },
  {
    name: "baton-record",
    title: "Baton over a record",
    server: "store",
    rule: prose`Baton’s machine over a Lease, a file, or etcd, with its default durations: a lease
      of 15 s and a deadline of 10 s.`,
    alone: prose`The claim ended by itself, by the leader’s own clock, before another process could
        acquire the record.`,
    both: BEYOND_BOUND,
  },
  {
    name: "baton-queue",
    title: "Baton over a queue",
    server: "ZooKeeper",
    rule: prose`Baton’s machine over ZooKeeper: a queue of ephemeral znodes, in which a leader
      counts the time of its session.`,
    alone: "The leader stopped before its session could expire, so its successor was alone.",
    both: BEYOND_BOUND,
  },
];

// The scenario of a run by its name, if there is one.
function classicOf(name) {
  const [algorithm, fault, size] = name.split(".");
  const found = ALGORITHMS.find((it) => it.name === algorithm);
  if (!found || !FAULTS.some(([name]) => name === fault) || !SIZES.includes(Number(size)))
    return undefined;
  return {
    name,
    tab: "classics",
    title: found.title,
    lead: (experiment) => `${found.rule} ${eventOf(experiment, fault)}`,
    question: "Will two processes lead at once?",
    choices: ["no", "for a while", "until the end of the run"],
    settled: (experiment) => experiment.now >= experiment.end,
    answer: (experiment) => {
      const { overlaps } = intervalsOf(experiment);
      const isEndless = overlaps.at(-1)?.[1] >= experiment.end;
      const reason = overlaps.length > 0 ? found.both : (QUIET[fault] ?? found.alone);
      return [overlaps.length === 0 ? 0 : isEndless ? 2 : 1, reason + late(experiment)];
    },
  };
}

// What a late write of a former leader did, if there was one.
function late(experiment) {
  const write = experiment.view.writes.find((it) => it.stale);
  if (!write) return "";
  const refused =
    write.token === null
      ? "there is no token by which a resource could refuse it"
      : "only the resource that checks tokens refused it";
  const writer = experiment.nameOf(write.candidate);
  return ` A late write of ${writer} reached both resources, and ${refused}.`;
}

function eventOf(experiment, fault) {
  const {
    faults: [at],
    end,
  } = experiment.info;
  return EVENTS[fault](seconds(at ?? 0), seconds((end * 3) / 8));
}

const scenarioOf = (name) => SCENARIOS.find((it) => it.name === name) ?? classicOf(name);
const scenariosIn = (tab) =>
  tab === "classics"
    ? ALGORITHMS.map(({ name }) => classicOf(`${name}.calm.5`))
    : SCENARIOS.filter((it) => it.tab === tab);
const serverOf = (name) => ALGORITHMS.find((it) => it.name === name.split(".")[0]).server;
