//! Two resources that the applications of a run write to: one checks the fencing token, one does
//! not.
//!
//! Pure. Start with [`writes`]. An application that is promised leadership works for a while and
//! then writes under the token of that promise. A pause in between makes the write late. Fencing is
//! for that mistake: the application asked before its work, and not at the moment of its write. Only
//! the resource can compare tokens at that moment.

use baton_election::claim::FencingToken;
use baton_sim::clock::Moment;
use baton_sim::recording::{Fact, Record};
use std::time::Duration;

/// How long an application works between the promise and its write.
pub const WORK: Duration = Duration::from_millis(1_200);

/// A write that reaches both resources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceWrite {
    /// When it arrives.
    pub at: Moment,
    /// The candidate whose application wrote.
    pub candidate: usize,
    /// The token of its term.
    pub token: FencingToken,
    /// Whether the token is older than one that the resource has seen. The resource that checks
    /// refuses the write, and the other one loses what the leader wrote.
    pub is_stale: bool,
}

/// The work of one application.
#[derive(Clone, Copy)]
enum Work {
    Idle,
    /// It writes then.
    Running(FencingToken, Moment),
    /// It is paused, with this much work left.
    Paused(FencingToken, Duration),
}

/// The writes up to `until` in a run of so many `candidates` that has these `records`.
pub fn writes(records: &[Record], candidates: usize, until: Moment) -> Vec<ResourceWrite> {
    let mut works = vec![Work::Idle; candidates];
    // When each candidate that is paused resumes. One pause may begin within another.
    let mut resumes_at = vec![None; candidates];
    let mut writes = Vec::new();
    for record in records.iter().take_while(|record| record.at <= until) {
        finish(&mut works, record.at, &mut writes);
        match &record.fact {
            Fact::Promised(number, token, _) if resumes_at[*number].is_none() => {
                if let Work::Idle = works[*number] {
                    works[*number] = Work::Running(*token, record.at + WORK);
                }
            }
            Fact::FaultBegan("pause" | "freeze", Some(number), until) => {
                resumes_at[*number] = resumes_at[*number].max(Some(*until));
                if let Work::Running(token, due) = works[*number] {
                    works[*number] = Work::Paused(token, due.since(record.at));
                }
            }
            Fact::FaultEnded("pause" | "freeze", Some(number))
                if resumes_at[*number].is_some_and(|at| at <= record.at) =>
            {
                resumes_at[*number] = None;
                if let Work::Paused(token, left) = works[*number] {
                    works[*number] = Work::Running(token, record.at + left);
                }
            }
            Fact::Exited(number) => {
                works[*number] = Work::Idle;
                resumes_at[*number] = None;
            }
            Fact::Promised(..)
            | Fact::FaultBegan(..)
            | Fact::FaultEnded(..)
            | Fact::ClockRate(..)
            | Fact::Started(_)
            | Fact::Claimed(..)
            | Fact::ClaimEnded(_)
            | Fact::Sent(..)
            | Fact::Performed(..)
            | Fact::Replied(..)
            | Fact::Notified(_)
            | Fact::Holder(_)
            | Fact::Role(..)
            | Fact::Noted(_) => {}
        }
    }
    finish(&mut works, until, &mut writes);
    writes
}

/// Performs the writes that are due by `now`, in order.
fn finish(works: &mut [Work], now: Moment, writes: &mut Vec<ResourceWrite>) {
    let due = |work: &Work| match work {
        Work::Running(token, due) if *due <= now => Some((*due, *token)),
        Work::Running(..) | Work::Idle | Work::Paused(..) => None,
    };
    let mut arrived: Vec<_> = works
        .iter_mut()
        .enumerate()
        .filter_map(|(candidate, work)| {
            let (at, token) = due(work)?;
            *work = Work::Idle;
            Some((at, candidate, token))
        })
        .collect();
    arrived.sort_unstable();
    for (at, candidate, token) in arrived {
        let newest = writes.iter().map(|write| write.token).max();
        writes.push(ResourceWrite { at, candidate, token, is_stale: newest > Some(token) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(millis: u64) -> Moment {
        Moment::START + Duration::from_millis(millis)
    }

    fn record(millis: u64, fact: Fact) -> Record {
        Record { at: moment(millis), fact, text: String::new() }
    }

    #[test]
    fn work_waits_for_the_end_of_the_longest_pause() {
        let token = FencingToken::new(7);
        let records = [
            record(100, Fact::Promised(0, token, moment(5_000))),
            record(200, Fact::FaultBegan("pause", Some(0), moment(4_000))),
            record(1_000, Fact::FaultBegan("freeze", Some(0), moment(2_000))),
            record(2_000, Fact::FaultEnded("freeze", Some(0))),
            record(4_000, Fact::FaultEnded("pause", Some(0))),
        ];
        let written: Vec<_> = writes(&records, 1, moment(9_000)).iter().map(|it| it.at).collect();
        assert_eq!(written, [moment(5_100)]);
    }
}
