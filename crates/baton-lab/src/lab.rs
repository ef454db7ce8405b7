//! The interface of the lab: a line of text in, JSON out.
//!
//! Pure. Start with [`Lab::call`].
//!
//! | request | answer |
//! |---|---|
//! | `open NAME SEED` | the scenario: its end, its candidates' durations, its kind of store |
//! | `open ALGORITHM.FAULT.N SEED` | the same of a classical algorithm with so many candidates |
//! | `act ACTION` | `kept`: how many records the action leaves as they were; or `error` |
//! | `seek NANOSECONDS` | the world at that time, and how many records there are |
//! | `records FROM` | the records from that index on |
//! | `hashes FROM COUNT` | the hash of each of these seeds' traces, as `prove --traces` prints them |

use crate::action::Action;
use crate::classics::ClassicRun;
use crate::resource::writes;
use crate::scenarios::{has_resource, scenario};
use crate::view::{write_resource, write_view};
use baton_sim::clock::Moment;
use baton_sim::faults::scenario_for;
use baton_sim::json::Json;
use baton_sim::live::LiveRun;
use baton_sim::recording::{write_records, write_scenario};
use baton_sim::run::trace_hash;
use std::time::Duration;

/// A lab with at most one open run.
#[derive(Debug, Default)]
pub struct Lab {
    run: Option<OpenRun>,
}

#[derive(Debug)]
enum OpenRun {
    Live { run: Box<LiveRun>, has_resource: bool },
    Classic(ClassicRun),
}

impl Lab {
    /// Answers one request. An answer with the member `error` says why nothing was done.
    pub fn call(&mut self, request: &str) -> String {
        let mut json = Json::default();
        if let Err(error) = self.answer(request, &mut json) {
            json = Json::default();
            json.object(|json| {
                json.key("error").string(&error);
            });
        }
        json.into_text()
    }

    fn answer(&mut self, request: &str, json: &mut Json) -> Result<(), String> {
        let words: Vec<_> = request.split(' ').collect();
        match words[..] {
            ["open", name, seed] => self.open(name, number(seed)?, json),
            ["act", action] => self.act(action, json),
            ["seek", nanos] => {
                let at = Moment::START + Duration::from_nanos(number(nanos)?);
                match self.run_mut()? {
                    OpenRun::Live { run, has_resource } => {
                        run.seek(at);
                        json.object(|json| write_moment(json, run, *has_resource));
                    }
                    OpenRun::Classic(run) => run.write_moment(json, at),
                }
                Ok(())
            }
            ["records", from] => {
                let from = usize::try_from(number(from)?).map_err(|_| "too large".to_owned())?;
                match self.run_mut()? {
                    OpenRun::Live { run, .. } => {
                        write_records(json, run.records().get(from..).unwrap_or_default());
                    }
                    OpenRun::Classic(run) => run.write_records(json, from),
                }
                Ok(())
            }
            ["hashes", from, count] => {
                let (from, count) = (number(from)?, number(count)?);
                json.array(|json| {
                    for seed in from..from.saturating_add(count) {
                        json.string(&format!("{:016x}", trace_hash(scenario_for(seed))));
                    }
                });
                Ok(())
            }
            _ => Err(format!("unknown request: {request}")),
        }
    }

    fn open(&mut self, name: &str, seed: u64, json: &mut Json) -> Result<(), String> {
        if let Some(run) = ClassicRun::open(name, seed) {
            run.write_info(json);
            self.run = Some(OpenRun::Classic(run));
            return Ok(());
        }
        let scenario = scenario(name, seed).ok_or_else(|| format!("no scenario {name}"))?;
        json.object(|json| write_scenario(json, &scenario));
        let has_resource = has_resource(name);
        self.run = Some(OpenRun::Live { run: Box::new(LiveRun::new(scenario)), has_resource });
        Ok(())
    }

    fn act(&mut self, action: &str, json: &mut Json) -> Result<(), String> {
        let OpenRun::Live { run, .. } = self.run_mut()? else {
            return Err("a classical algorithm has only the faults of its list".to_owned());
        };
        let action = Action::parse(action).map_err(|rejection| rejection.to_string())?;
        let kept = action.apply(run).map_err(|rejection| rejection.to_string())?;
        json.object(|json| {
            json.key("kept").value(kept);
        });
        Ok(())
    }

    fn run_mut(&mut self) -> Result<&mut OpenRun, String> {
        self.run.as_mut().ok_or_else(|| "no scenario is open".to_owned())
    }
}

fn write_moment(json: &mut Json, run: &LiveRun, has_resource: bool) {
    json.key("now").moment(run.now()).key("records").value(run.records().len());
    write_view(json, &run.view());
    if has_resource {
        let candidates = run.scenario().candidates.len();
        write_resource(json, &writes(run.records(), candidates, run.now()));
    }
    run.write_violation(json.key("violation"));
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("not a number: {word}"))
}
