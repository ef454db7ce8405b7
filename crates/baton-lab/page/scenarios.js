// The scenarios: what each is about, what to predict, and how the run itself gives the answer.

// Text on several lines, as one line.
const prose = (parts, ...values) => String.raw({ raw: parts }, ...values).replace(/\s+/g, " ");

// The terms that began before now: `[time, candidate]`.
const termsOf = (experiment) =>
  experiment.records
    .slice(0, experiment.position())
    .filter((r) => r[1] === "role" && r[3] === "leads")
    .map((r) => [r[0], r[2]]);
const leaderOf = (experiment) =>
  experiment.view.nodes.findIndex((node) => node.until > experiment.now);
const wokenSince = (experiment, from) => [
  ...new Set(
    experiment.records
      .slice(experiment.position(from), experiment.position())
      .filter((r) => r[1] === "watch" && r[5].includes("watch fired"))
      .map((r) => r[2]),
  ),
];
const names = (list) => (list.length === 0 ? "none" : list.map(letter).join(" and "));
const seconds = (time) => `${(time / SECOND).toFixed(1)} s`;
const gapOf = (experiment, from) => {
  const next = termsOf(experiment).find(([at]) => at > from);
  return next && next[0] - from;
};

const SCENARIOS = [
  {
    name: "join",
    tab: "queue",
    title: "Join and elect",
    lead: prose`Five processes start one after another. Each creates an ephemeral znode, and
      ZooKeeper appends a sequence number.`,
    question: "Which process will lead?",
    choices: ["the first to join", "the last to join", "the one with most votes"],
    settled: (e) => e.now >= 12 * SECOND,
    answer: (e) => [
      leaderOf(e) === e.view.store.znodes[0].owner && leaderOf(e) === 0 ? 0 : 1,
      prose`${letter(leaderOf(e))} created the znode with the smallest number, so it leads. No
        process voted. Each other process watches the znode directly ahead of its own, and none
        watches further.`,
    ],
  },
  {
    name: "leader-dies",
    tab: "queue",
    title: "Leader dies, no herd",
    lead: prose`At 10 s the leader is killed. Its session times out, ZooKeeper deletes its znode,
      and a watch fires.`,
    question: "How many of the four others will be woken?",
    choices: ["all four", "exactly one", "a majority of three"],
    settled: (e) => e.now >= 20 * SECOND,
    answer: (e) => {
      const woken = wokenSince(e, 10 * SECOND);
      return [
        woken.length === 1 ? 1 : woken.length === 4 ? 0 : 2,
        prose`ZooKeeper woke ${names(woken)}, and ${letter(leaderOf(e))} leads
          ${seconds(gapOf(e, 10 * SECOND))} after the death. Most of that time is the session
          timeout of 6 s, because a dead process cannot report its death.`,
      ];
    },
  },
  {
    name: "mid-chain",
    tab: "queue",
    title: "Mid-chain death",
    lead: prose`At 10 s the third process of five is killed. It leads nothing, but another process
      watches its znode.`,
    question: "What will the process behind it do?",
    choices: ["lead", "watch the next znode ahead", "tell the leader"],
    settled: (e) => e.now >= 20 * SECOND,
    answer: (e) => {
      const woken = wokenSince(e, 10 * SECOND);
      return [
        termsOf(e).length === 1 ? 1 : 0,
        prose`Only ${names(woken)} woke. It listed the queue, found another znode ahead of its
          own, and watches that one. ${letter(leaderOf(e))} leads as before and noticed nothing:
          the chain has closed.`,
      ];
    },
  },
  {
    name: "free-play",
    tab: "queue",
    title: "Free play",
    lead: prose`Five processes and ten minutes. Choose processes below and kill, pause, cut, or
      restart them. Two leaders at once would be marked in red.`,
    exercises: [
      "Try to crash the second smallest.",
      "Kill two followers that are not neighbors, at once.",
      "Kill the largest: no process watches it.",
    ],
  },
  {
    name: "free-play-9",
    tab: "queue",
    title: "Free play with nine",
    lead: "The same with nine processes. A longer queue costs no more messages after a death.",
    exercises: [
      "Kill the leader. How many processes wake?",
      "Kill the leader and its successor, at once.",
    ],
  },
  {
    name: "crash",
    tab: "record",
    title: "The leader crashes",
    lead: prose`Three processes share one record: a Lease, a file, or a key in etcd. The leader
      renews it every 0.8 s. At 10 s it is killed.`,
    question: "When will another process lead?",
    choices: [
      "at once",
      "about 6 s later, when its lease has expired",
      "never: the record names the dead one",
    ],
    settled: (e) => e.now >= 22 * SECOND,
    answer: (e) => {
      const gap = gapOf(e, 10 * SECOND);
      return [
        gap === undefined ? 2 : gap < 2 * SECOND ? 0 : 1,
        prose`${letter(termsOf(e).at(-1)[1])} led ${seconds(gap)} after the crash. Each follower
          waits for a whole lease after it last saw the record change, by its own clock.`,
      ];
    },
  },
  {
    name: "handoff",
    tab: "record",
    title: "Clean handoff",
    lead: prose`At 10 s the leader gets SIGTERM. It stops promising at once, but an application
      may still act on its last promise.`,
    question: "When may the record be released?",
    choices: ["at once", "when the last promise has expired", "when the lease has expired"],
    settled: (e) => e.now >= 16 * SECOND,
    answer: (e) => {
      const gap = gapOf(e, 10 * SECOND);
      return [
        gap > 3 * SECOND ? 2 : 1,
        prose`The next leader led ${seconds(gap)} after the order. A promise was good for 0.8 s at
          most, and the release waited for the last one. Nothing waited for the lease.`,
      ];
    },
  },
  {
    name: "short-partition",
    tab: "record",
    title: "A short partition",
    lead: prose`At 10 s the leader loses its link to the store for 1.5 s. Its claim lasts 4 s from
      its last renewal.`,
    question: "Will the leader change?",
    choices: ["yes", "no"],
    settled: (e) => e.now >= 17 * SECOND,
    answer: (e) => [
      termsOf(e).length > 1 ? 0 : 1,
      prose`${letter(leaderOf(e))} led throughout. A lost renewal has an unknown outcome, which
        neither extends nor ends a claim. The next one arrived in time.`,
    ],
  },
  {
    name: "long-partition",
    tab: "record",
    title: "A long partition",
    lead: prose`At 10 s the leader loses its link to the store for 15 s. It cannot know whether
      the others have replaced it.`,
    question: "When does the old leader stop?",
    choices: [
      "when it hears of the new leader",
      "before the new leader starts",
      "when the link is back",
    ],
    settled: (e) => e.now >= 28 * SECOND,
    answer: (e) => {
      const [first, second] = termsOf(e);
      const end = claimEnd(e, first[1], second[0]);
      return [
        end <= second[0] ? 1 : 0,
        prose`The claim of ${letter(first[1])} ended at ${seconds(end)} by itself, and
          ${letter(second[1])} led from ${seconds(second[0])}. A leader counts 4 s from before its
          request, and the others count 6 s from after it.`,
      ];
    },
  },
  {
    name: "paused-leader",
    tab: "record",
    title: "A paused leader wakes up",
    lead: prose`At 10 s the leader is suspended for 15 s, as by SIGSTOP or a long garbage
      collection. It believes that no time has passed.`,
    question: "What will it answer when it wakes up?",
    choices: ["“leading”, until it reads the record", "“not leading”, at once"],
    settled: (e) => e.now >= 28 * SECOND,
    answer: (e) => {
      const first = termsOf(e)[0][1];
      const late = e.records
        .slice(e.position(25 * SECOND - 1), e.position())
        .some((r) => r[1] === "promise" && r[2] === first && r[0] < 25.2 * SECOND);
      return [
        late ? 0 : 1,
        prose`Its claim is a deadline on a clock that kept running. No flag had to be cleared, so
          ${letter(first)} found that its claim had ended before it read anything.`,
      ];
    },
  },
  {
    name: "drift-within",
    tab: "record",
    title: "Clocks drift within the bound",
    lead: prose`The leader’s clock runs 10% slow and the others’ run 10% fast: the worst that the
      configured bound of 10% allows. At 10 s the leader is partitioned.`,
    question: "Will two processes lead at once?",
    choices: ["yes", "no"],
    settled: (e) => e.now >= 25 * SECOND,
    answer: (e) => {
      const [first, second] = termsOf(e);
      const gap = second[0] - claimEnd(e, first[1], second[0]);
      return [
        gap < 0 ? 0 : 1,
        prose`The claim ended ${seconds(gap)} before the next one began. This slack is why a lease
          of 6 s goes with a deadline of 4 s: 4 s × 1.1 is less than 6 s × 0.9.`,
      ];
    },
  },
  {
    name: "drift-beyond",
    tab: "record",
    title: "Clocks drift beyond the bound",
    lead: "The same partition, but the clocks are off by 40%, and the configured bound is 10%.",
    question: "Will two processes lead at once?",
    choices: ["yes", "no"],
    settled: (e) => e.now >= 25 * SECOND,
    answer: (e) => [
      e.view.violation ? 0 : 1,
      e.view.violation
        ? prose`The red band is the time with two leaders. Every lease assumes a bound on clock
          drift. Beyond it, only a fencing token helps, because the resource compares tokens and
          not clocks.`
        : "Not this time.",
    ],
  },
  {
    name: "restored-store",
    tab: "record",
    title: "A restored store",
    lead: prose`At 10 s an operator restores an empty backup of the store. The leader’s record is
      gone, and so are its renewals.`,
    question: "What should the leader do?",
    choices: ["lead on: its claim is still running", "end its term"],
    settled: (e) => e.now >= 25 * SECOND,
    answer: (e) => {
      const [first, second] = termsOf(e);
      const end = claimEnd(e, first[1], second?.[0] ?? e.now);
      return [
        second && end < 12 * SECOND ? 1 : 0,
        second
          ? prose`${letter(first[1])} saw at ${seconds(end)} that its record was gone, and ended
            its term: it could no longer prove that it led alone. The others waited for a whole
            lease, and ${letter(second[1])} led from ${seconds(second[0])}. With a backup that
            still holds the record of its term, a leader may lead on.`
          : "It led on, because the backup still held the record of its term.",
      ];
    },
  },
  {
    name: "outage",
    tab: "record",
    title: "A store outage",
    lead: "At 10 s the store refuses all requests for 12 s.",
    question: "Which process leads during the outage?",
    choices: [
      "the old leader throughout",
      "none, after the claim has ended",
      "whichever process starts first",
    ],
    settled: (e) => e.now >= 34 * SECOND,
    answer: (e) => {
      const terms = termsOf(e);
      const end = claimEnd(e, terms[0][1], terms[1]?.[0] ?? Infinity);
      return [
        end < 22 * SECOND ? 1 : 0,
        prose`The claim ended at ${seconds(end)}, and no process led until the store was back.
          Without the store no process can prove that it leads alone. ${letter(terms.at(-1)[1])}
          led again at ${seconds(terms.at(-1)[0])}.`,
      ];
    },
  },
  {
    name: "fencing",
    tab: "record",
    title: "Fencing: a late write",
    lead: prose`Each leader’s application asks, works for 1.2 s, and writes to two resources. At
      10 s the leader’s machine is suspended for 14 s in the middle of its work.`,
    question: "What will the late write of the old leader do?",
    choices: [
      "both resources refuse it",
      "both accept it",
      "only the one that checks the token refuses it",
    ],
    settled: (e) => e.now >= 28 * SECOND,
    answer: (e) => {
      const stale = e.view.writes.find((write) => write.stale);
      return [
        stale ? 2 : 1,
        stale
          ? prose`${letter(stale.candidate)} asked before its work and wrote after its pause, at
            ${seconds(stale.at)}. No election can stop a write that is in flight. The
            resource that remembers the largest token refused it. The other one lost what the new
            leader had written.`
          : "There was no late write.",
      ];
    },
  },
  {
    name: "free-play-record",
    tab: "record",
    title: "Free play",
    lead: prose`Three processes share one record for ten minutes. Choose processes below and kill,
      pause, cut, or restart them, or restore a backup of the store.`,
    exercises: [
      "Pause the leader for less than 4 s.",
      "Cut the links of two followers, and kill the leader.",
      "End an outage of the store after 2 s, and after 10 s.",
    ],
  },
];

// When the claim of `candidate` that ran before `until` ended.
function claimEnd(experiment, candidate, until) {
  const claims = intervalsOf(experiment).lanes[candidate].claim.filter(([from]) => from < until);
  return claims.at(-1)?.[1] ?? 0;
}
