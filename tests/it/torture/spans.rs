//! The times at which candidates of one election could act as its leader, and the figures computed
//! from them. The rules are the same for every program.
//!
//! Pure. Start with [`judge`].

use crate::rig::Moment;
use std::collections::BTreeSet;
use std::time::Duration;

/// A time at which a candidate could act as the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The candidate and its term.
    pub(super) term: String,
    pub(super) from: Moment,
    pub(super) until: Moment,
}

/// The figures of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) terms: usize,
    /// How often a term began while another candidate led.
    pub(super) overlaps: usize,
    /// The time with two leaders or more.
    pub(super) together: Duration,
    /// The longest time without a leader.
    pub(super) longest_gap: Duration,
}

/// Judges a history that ended at that moment. The time before the first leader does not count.
pub(super) fn judge(spans: &[Span], end: Moment) -> Verdict {
    let terms: BTreeSet<&str> = spans.iter().map(|span| &*span.term).collect();
    let mut verdict = Verdict { terms: terms.len(), ..Verdict::default() };
    // An end comes before a beginning at the same moment.
    let mut changes: Vec<(Moment, bool)> = terms
        .into_iter()
        .flat_map(|term| united(spans.iter().filter(|span| span.term == term)))
        .flat_map(|(from, until)| [(from, true), (until, false)])
        .collect();
    changes.sort();
    let mut leaders = 0_usize;
    let mut since = changes.first().map_or(end, |(first, _)| *first);
    for (at, begins) in changes {
        match leaders {
            0 => verdict.longest_gap = verdict.longest_gap.max(at.since(since)),
            1 => verdict.overlaps += usize::from(begins),
            _ => verdict.together += at.since(since),
        }
        leaders = if begins { leaders + 1 } else { leaders - 1 };
        since = at;
    }
    if leaders == 0 {
        verdict.longest_gap = verdict.longest_gap.max(end.since(since));
    }
    verdict
}

/// The times of one term. Empty ones are removed, and ones that touch or overlap are merged.
fn united<'a>(spans: impl Iterator<Item = &'a Span>) -> Vec<(Moment, Moment)> {
    let mut times: Vec<_> = spans.map(|span| (span.from, span.until)).collect();
    times.retain(|(from, until)| from < until);
    times.sort();
    let mut united: Vec<(Moment, Moment)> = Vec::new();
    for (from, until) in times {
        match united.last_mut().filter(|(_, last)| *last >= from) {
            Some((_, last)) => *last = until.max(*last),
            None => united.push((from, until)),
        }
    }
    united
}

/// The spans of one process, from the beginnings and ends of its terms, and from its own end.
pub(super) fn terms(
    process: &str,
    changes: impl Iterator<Item = (bool, Moment)>,
    end: Moment,
) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut led = None;
    for (begins, at) in changes.chain([(false, end)]) {
        if let Some(from) = led.take() {
            spans.push(Span { term: format!("{process}/{}", spans.len()), from, until: at });
        }
        led = begins.then_some(at);
    }
    spans
}

/// The parts of a span in which its process ran, and so its application.
pub(super) fn awake(span: &Span, asleep: &[(Moment, Moment)]) -> Vec<Span> {
    let mut sorted = asleep.to_vec();
    sorted.sort();
    let mut from = span.from;
    let mut parts = Vec::new();
    for (stopped, resumed) in sorted {
        parts.push(Span { from, until: stopped.min(span.until), ..span.clone() });
        from = from.max(resumed);
    }
    parts.push(Span { from, ..span.clone() });
    parts.retain(|part| part.from < part.until);
    parts
}

mod tests {
    use super::{Span, Verdict, awake, judge, terms};
    use crate::rig::Moment;
    use std::time::Duration;

    fn span(term: &str, from: u64, until: u64) -> Span {
        let [from, until] = [from, until].map(Moment::from_ms);
        Span { term: term.to_owned(), from, until }
    }

    fn judged(spans: &[Span]) -> Verdict {
        judge(spans, Moment::from_ms(1000))
    }

    #[test]
    fn terms_that_touch_do_not_overlap() {
        let verdict = judged(&[span("a", 100, 500), span("b", 500, 1000)]);
        assert_eq!(verdict, Verdict { terms: 2, ..Verdict::default() });
    }

    #[test]
    fn overlaps_are_counted_and_their_time_is_added() {
        let spans =
            [span("a", 100, 500), span("b", 400, 600), span("c", 450, 460), span("d", 590, 1000)];
        let verdict = judged(&spans);
        assert_eq!(verdict.terms, 4);
        assert_eq!(verdict.overlaps, 2);
        assert_eq!(verdict.together, Duration::from_millis(110));
    }

    #[test]
    fn promises_of_one_term_do_not_overlap_each_other() {
        let verdict = judged(&[span("a", 100, 500), span("a", 200, 900), span("a", 950, 1000)]);
        assert_eq!((verdict.terms, verdict.overlaps), (1, 0));
        assert_eq!(verdict.longest_gap, Duration::from_millis(50));
    }

    #[test]
    fn gap_at_the_end_counts() {
        let verdict = judged(&[span("a", 300, 350), span("b", 400, 500)]);
        assert_eq!(verdict.longest_gap, Duration::from_millis(500));
        assert_eq!(judged(&[]), Verdict::default());
    }

    #[test]
    fn last_term_ends_with_its_process() {
        let changes = [(true, 100), (false, 200), (false, 250), (true, 300)];
        let changes = changes.map(|(begins, at)| (begins, Moment::from_ms(at)));
        let found = terms("p", changes.into_iter(), Moment::from_ms(900));
        assert_eq!(found, [span("p/0", 100, 200), span("p/1", 300, 900)]);
    }

    #[test]
    fn paused_process_does_not_act_as_leader() {
        let asleep = [(700, 800), (200, 400)].map(|(from, until)| {
            let [from, until] = [from, until].map(Moment::from_ms);
            (from, until)
        });
        assert_eq!(awake(&span("a", 100, 300), &asleep), [span("a", 100, 200)]);
        assert_eq!(awake(&span("a", 300, 500), &asleep), [span("a", 400, 500)]);
        assert_eq!(
            awake(&span("a", 100, 1000), &asleep),
            [span("a", 100, 200), span("a", 400, 700), span("a", 800, 1000)]
        );
        assert_eq!(awake(&span("a", 450, 500), &asleep), [span("a", 450, 500)]);
    }
}
