"""Judges what a worker did beside a scripted sidecar.

Touches nothing. Start with `judge`, which raises `Failed` at the first broken rule. All times are
of one clock, in nanoseconds. The sidecar notes a request when it has read it, which is after the
client noted its clock, so a correct client is never found late.
"""

import itertools

from scripted import Failed

MS = 1_000_000
# How late a busy machine may let a process run. Faults that the cases look for cost much more, and
# what a library allows is judged exactly.
NOISE = 2000 * MS
# How long after the end of work its POST /done may take to arrive.
DONE_WITHIN = 6000 * MS


def judge(played):
    case, lines = played.case, played.lines
    asked = Asked(played.record)
    if case.get("exits") == "refusing":
        expect(played.exit_code != 0, f"it accepted the URL {played.url}")
        says = "http://HOST:PORT" in played.errors and "BATON_URL" in played.errors
        expect(says, "it did not say how to write the URL")
        expect(not asked.questions, "it asked at a malformed URL")
        return
    expect(played.exit_code == 0, f"the worker ended with {played.exit_code}")
    if "works" in case:
        works = [line.token for line in lines if line.event == "start"]
        # A script may repeat its last answer, so a worker may start again in the same term.
        wanted = case["works"]
        extra = works[len(wanted) :]
        expect(
            works[: len(wanted)] == wanted and all([t] == wanted[-1:] for t in extra),
            f"it worked in the terms {works}, not {wanted}",
        )
    if "asks" in case:
        check_asks(case["asks"], lines, asked)
    if "changes" in case:
        changes = [f"{line.event} {line.token}" for line in lines]
        wanted = case["changes"]
        expect(changes[: len(wanted)] == wanted, f"it saw the changes {changes}, not {wanted}")
    if "most_requests" in case:
        total = len(asked.questions)
        expect(total <= case["most_requests"], f"it asked {total} times")
    if case.get("waited"):
        waits = ["wait" in question["query"] for question in asked.questions]
        expect(True in waits and False in waits, "it did not ask with wait and then without")
    if "warnings" in case:
        warnings = played.errors.count(f"no sidecar answers at {played.url} (")
        expect(warnings == case["warnings"], f"it warned {warnings} times that no sidecar answers")
    early = case.get("earliest_ms", 0) - played.took_ms
    expect(early <= 0, f"it warned {early:.0f} ms too early")
    check_connections(asked)
    check_work(played, asked)
    check_done(played, asked)
    pieces = Piece.of(lines)
    if "ends" in case and pieces:
        check_end(case["ends"], pieces[0], played, asked)


def expect(holds, otherwise):
    if not holds:
        raise Failed(otherwise)


class Asked:
    """The sidecar's record: each question with its answer."""

    def __init__(self, record):
        requests = [entry for entry in record if entry["event"] == "request"]
        answers = {e["request"]: e for e in record if e["event"] == "answer"}
        self.questions = [entry for entry in requests if entry["path"] == "/leader"]
        for question in self.questions:
            answer = answers.get(question["request"])
            question["answer"] = answer
            question["good"] = bool(answer and answer["good"])
            if answer:
                question["until"] = question["at"] + answer["valid_for_ms"] * MS
        self.dones = [entry for entry in requests if entry["path"] == "/done"]
        self.others = [e for e in requests if e["path"] not in ("/leader", "/done")]
        self.closed = {e["connection"]: e["at"] for e in record if e["event"] == "closed"}

    def promises(self, token):
        return [q for q in self.questions if q["good"] and q["answer"]["token"] == token]


class Piece:
    """One piece of work: the lines from its start to its stop."""

    def __init__(self, start):
        self.token, self.start = start.token, start.at
        # The start, and each beat.
        self.acts = [start]
        self.cancel = self.stop = None

    @classmethod
    def of(cls, lines):
        pieces = []
        for line in lines:
            if line.event == "start":
                expect(not pieces or pieces[-1].stop, "it started work beside other work")
                pieces.append(cls(line))
            elif line.event in ("beat", "cancel", "stop"):
                expect(
                    pieces and pieces[-1].token == line.token,
                    f"a line of token {line.token} is outside of its work",
                )
                if line.event == "beat":
                    pieces[-1].acts.append(line)
                else:
                    setattr(pieces[-1], line.event, line.at)
        return pieces


def check_connections(asked):
    expect(not asked.others, f"it requested {[entry['path'] for entry in asked.others]}")
    unanswered = set()
    for question in sorted(asked.questions + asked.dones, key=lambda entry: entry["at"]):
        connection = question["connection"]
        expect(connection not in unanswered, "it used a connection again that gave no answer")
        answer = question.get("answer")
        if question["path"] == "/leader" and (not answer or answer["kind"] == "hang"):
            unanswered.add(connection)


def check_work(played, asked):
    """Work starts and goes on only within a promise that counts from its request."""
    exact = played.options.get("check") and not played.options.get("signal", 1)
    for piece in Piece.of(played.lines):
        promises = asked.promises(piece.token)
        for act, later in itertools.zip_longest(piece.acts, piece.acts[1:]):
            given = [p for p in promises if p["answer"]["at"] <= act.at]
            expect(given, f"it worked with token {piece.token} before it had a promise")
            late = act.at - max(p["until"] for p in given)
            # A signal may arrive late on a busy machine. A check may not.
            allowed = 0 if exact and act.event == "beat" else NOISE
            expect(late < allowed, f"it worked {late / MS:.0f} ms past the promise")
            check_until(played, promises, act, later)


def check_until(played, promises, act, later):
    """Checks the remaining time that the library reported. Load does not change it."""
    if not act.until:
        return
    given = [p["until"] for p in promises if not later or p["answer"]["at"] <= later.at]
    over = act.until + played.options["step_ms"] * MS - max(given)
    expect(over <= 0, f"work was allowed for {over / MS:.1f} ms too long")


def check_done(played, asked):
    ended = [piece for piece in Piece.of(played.lines) if piece.stop]
    # A worker that is stopped may end a term whose work has not begun.
    dones, more = asked.dones[: len(ended)], asked.dones[len(ended) :]
    expect(
        len(dones) == len(ended) and all(done["at"] > played.stopped_at for done in more),
        f"it said done {len(asked.dones)} times for {len(ended)} pieces of work",
    )
    askers = [done["query"].get("asker") for done in dones]
    expect(len(set(askers)) == len(askers), "it used an asker for two pieces of work")
    for piece, done, asker in zip(ended, dones, askers, strict=True):
        expect(done["method"] == "POST" and done["guard"] == "1", "done was not a guarded POST")
        expect(
            done["query"].get("token") == piece.token,
            f"it said done for token {done['query'].get('token')}, not {piece.token}",
        )
        expect(done["at"] >= piece.stop, "it said done before its work had returned")
        late = (done["at"] - piece.stop) / MS
        expect(late <= DONE_WITHIN / MS, f"it said done {late:.0f} ms after its work had returned")
        own = [q for q in asked.questions if q["query"].get("asker") == asker]
        expect(
            any(q["good"] and q["answer"]["token"] == piece.token for q in own),
            f"it said done for the asker {asker}, which had no promise",
        )
        expect(all(q["at"] < done["at"] for q in own), "it asked again after it said done")
        for question in own:
            answer = question["answer"]
            if not answer or answer["kind"] == "hang" or answer["at"] > done["at"]:
                closed = asked.closed.get(question["connection"])
                expect(
                    closed and closed <= done["at"] + NOISE,
                    "it said done while it still asked",
                )


def check_end(how, piece, played, asked):
    step = played.options["step_ms"] * MS
    ended = piece.cancel or piece.stop
    if how == "stopped":
        early = ended and ended < played.stopped_at
        expect(ended and not early, "its work did not go on until it was stopped")
        late = (ended - played.stopped_at) / MS
        expect(late <= NOISE / MS, f"its work ended {late:.0f} ms after it was stopped")
        return
    if how == "blocked":
        expect(ended, "its work did not end")
        return
    promises = asked.promises(piece.token)
    if how == "answer":
        last = max(promise["answer"]["at"] for promise in promises)
        refusals = [
            q["answer"]["at"]
            for q in asked.questions
            if q["answer"] and q["answer"]["at"] > last and q not in promises
        ]
        late = (ended - min(refusals)) / MS
        expect(late <= NOISE / MS, f"its work ended {late:.0f} ms after the refusal")
        return
    late = (ended - (max(promise["until"] for promise in promises) - step)) / MS
    expect(late <= NOISE / MS, f"its work was canceled {late:.0f} ms late")
    if how == "deadline":
        expect(late >= -NOISE / MS, f"its work was canceled {-late:.0f} ms early")


def check_asks(wanted, lines, asked):
    lines = [line for line in lines if line.event == "ask"]
    tokens = [line.token for line in lines]
    expect(tokens == wanted, f"asking once gave {tokens}, not {wanted}")
    for line, question in zip(lines, asked.questions, strict=True):
        if line.token != "-":
            over = (line.until - question["until"]) / MS
            expect(over <= 0, f"a promise was taken to hold {over:.1f} ms too long")
            expect(over >= -NOISE / MS, f"a promise was taken to end {-over:.0f} ms early")
