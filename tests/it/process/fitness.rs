//! Candidates whose application says whether it is fit to lead (`--fit-url`).

use crate::rig::{Candidate, NOISE, Rig, Start, Store, Timing};
use crate::rig::{eventually, lock, over_every_store, throughout, wait_for};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How often and how long the sidecars of these tests ask.
const PERIOD: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_millis(150);
const FAILURES: u32 = 3;
/// How long a sidecar takes to notice that its application is not fit.
const NOTICE: Duration = Duration::from_millis(800);

over_every_store! {
    unfit_leader_releases_and_another_leads,
    candidate_that_was_never_fit_does_not_campaign,
}

/// An application that answers every request in the same way.
struct Application {
    address: SocketAddr,
    behavior: Arc<Mutex<Behavior>>,
    asked: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug)]
enum Behavior {
    Fit,
    Failing,
    Hanging,
    Dripping,
    /// Redirects to another application.
    Redirecting(SocketAddr),
    /// An endless body.
    Flooding,
    /// Endless informational answers before the final one.
    Informing,
}

impl Application {
    fn start(behavior: Behavior) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let behavior = Arc::new(Mutex::new(behavior));
        let asked = Arc::new(AtomicUsize::new(0));
        let shared = (Arc::clone(&behavior), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                shared.1.fetch_add(1, Ordering::Relaxed);
                let behavior = *lock(&shared.0);
                thread::spawn(move || answer(stream, behavior));
            }
        });
        Self { address, behavior, asked }
    }

    fn becomes(&self, behavior: Behavior) {
        *lock(&self.behavior) = behavior;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Answers one request until the sidecar closes the connection.
fn answer(mut stream: TcpStream, behavior: Behavior) {
    let mut request = [0; 4096];
    if !stream.read(&mut request).is_ok_and(|bytes| bytes > 0) {
        return;
    }
    let head = match behavior {
        Behavior::Fit => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
        Behavior::Failing => "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_owned(),
        Behavior::Redirecting(to) => {
            format!("HTTP/1.1 302 Found\r\nLocation: http://{to}/\r\nContent-Length: 0\r\n\r\n")
        }
        Behavior::Informing => "HTTP/1.1 102 Processing\r\n\r\n".repeat(1 << 15),
        Behavior::Hanging | Behavior::Dripping | Behavior::Flooding => {
            "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n".to_owned()
        }
    };
    match behavior {
        Behavior::Hanging => drop(stream.read(&mut request)),
        Behavior::Fit | Behavior::Failing | Behavior::Redirecting(_) => {
            drop(stream.write_all(head.as_bytes()));
        }
        Behavior::Dripping => {
            let mut part = head.as_bytes();
            while stream.write_all(part).is_ok() {
                part = b".";
                thread::sleep(Duration::from_millis(5));
            }
        }
        Behavior::Flooding => {
            let flood = vec![b'.'; 1 << 20];
            let mut part = head.as_bytes();
            while stream.write_all(part).is_ok() {
                part = &flood;
            }
        }
        Behavior::Informing => while stream.write_all(head.as_bytes()).is_ok() {},
    }
}

/// A candidate that asks `application`.
fn asking<'a, S: Store>(rig: &'a Rig<S>, name: &str, application: &Application) -> Start<'a, S> {
    rig.candidate(name)
        .flag("--fit-url", format!("http://{}/fit", application.address))
        .flag("--fit-period", format!("{PERIOD:?}"))
        .flag("--fit-timeout", format!("{TIMEOUT:?}"))
        .flag("--fit-failures", FAILURES.to_string())
}

fn is_fit(candidate: &Candidate) -> bool {
    candidate.metric("baton_fit{election=\"orders\"}") == Some(1.0)
}

fn unfit_leader_releases_and_another_leads<S: Store>() {
    let rig = Rig::over(S::fresh(), S::SLOW);
    let [first, second] = [Behavior::Fit, Behavior::Fit].map(Application::start);
    let old = asking(&rig, "a", &first).flag("--on-lost", "stay").start();
    assert_eq!(rig.leader().identity, old.identity);
    let new = asking(&rig, "b", &second).flag("--on-lost", "stay").start();
    eventually(S::NOISE * 10, "it is fit and follows", || {
        is_fit(&new) && rig.has_standing(&new, "following")
    });
    let since = rig.now();
    first.becomes(Behavior::Failing);
    let within = NOTICE + rig.timing.answer_validity + Duration::from_millis(100) + S::NOISE;
    let (successor, _) = rig.successor(&old, since, within);
    assert_eq!(successor.identity, new.identity);
    let resigned = old.events("resigned").pop().map(|event| event["reason"].clone());
    assert_eq!(resigned, Some("unfit".into()));
    let unfit = wait_for(NOTICE, "it says so", || old.events("unfit").pop());
    assert!(unfit["reason"].as_str().unwrap_or_default().contains("503"), "{unfit}");
    assert!(!is_fit(&old) && old.is_healthy());
    first.becomes(Behavior::Fit);
    eventually(NOTICE + S::NOISE, "it is fit again", || is_fit(&old));
    assert!(rig.holds(&new), "no candidate takes the record from a fit leader");
}

fn candidate_that_was_never_fit_does_not_campaign<S: Store>() {
    let rig = Rig::over(S::fresh(), S::CALM);
    let application = Application::start(Behavior::Failing);
    let only = asking(&rig, "a", &application).start();
    throughout(4 * rig.timing.retry_period, "no candidate holds the election", || {
        rig.store.holder("orders").is_empty()
    });
    assert!(rig.first_promise(&only).is_none());
    application.becomes(Behavior::Fit);
    let within = PERIOD + 2 * rig.timing.retry_period + S::NOISE * 4;
    wait_for(within, "it leads", || rig.first_promise(&only));
    assert_eq!(only.events("fit").len(), 1);
}

/// Its application may still act, so no candidate may lead before the record expires.
#[test]
fn undeclared_unfit_leader_exits_without_a_release() {
    let rig = Rig::new(Timing::CALM);
    let application = Application::start(Behavior::Fit);
    let leader = asking(&rig, "a", &application).start();
    rig.leader();
    rig.wait_for_answers();
    application.becomes(Behavior::Failing);
    assert_eq!(leader.exit_code(), 75);
    assert!(rig.holds(&leader), "the record is not released");
    assert!(leader.events("resigned").is_empty());
}

/// An application that drains after SIGTERM no longer answers, and its Pod must stop cleanly.
#[test]
fn unfit_leader_that_prepares_to_stop_stops_cleanly() {
    let rig = Rig::new(Timing::CALM);
    let application = Application::start(Behavior::Fit);
    let leader = asking(&rig, "a", &application).start();
    rig.leader();
    rig.wait_for_answers();
    assert!(leader.baton("stopping").status.success());
    application.becomes(Behavior::Failing);
    eventually(NOTICE + NOISE, "it is not fit", || !is_fit(&leader));
    throughout(rig.timing.answer_validity + NOTICE, "it waits for SIGTERM", || leader.is_alive());
    leader.terminate();
    assert_eq!(leader.exit_code(), 0);
    assert_eq!(rig.store.holder("orders"), "", "it has released");
}

#[test]
fn answers_that_do_not_end_make_unfit() {
    for behavior in [Behavior::Hanging, Behavior::Dripping] {
        let rig = Rig::new(Timing::CALM);
        let application = Application::start(Behavior::Fit);
        let leader = asking(&rig, "a", &application).flag("--on-lost", "stay").start();
        rig.leader();
        rig.wait_for_answers();
        application.becomes(behavior);
        eventually(Duration::from_secs(4), "it is not fit", || !is_fit(&leader));
        let unfit = wait_for(NOTICE, "it says so", || leader.events("unfit").pop());
        let reason = unfit["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("within 150ms"), "{behavior:?}: {reason}");
        application.becomes(Behavior::Fit);
        eventually(Duration::from_secs(4), "it is fit again", || is_fit(&leader));
    }
}

#[test]
fn redirect_makes_unfit_and_is_not_followed() {
    let rig = Rig::new(Timing::CALM);
    let [application, other] = [Behavior::Fit, Behavior::Fit].map(Application::start);
    let leader = asking(&rig, "a", &application).flag("--on-lost", "stay").start();
    rig.leader();
    rig.wait_for_answers();
    application.becomes(Behavior::Redirecting(other.address));
    eventually(Duration::from_secs(4), "it is not fit", || !is_fit(&leader));
    assert_eq!(other.asked(), 0, "the other application was not asked");
}

/// Each hostile application is compared with one that answers. On a quiet machine, the means differ
/// by less than 5 ms.
#[test]
fn hostile_application_delays_no_renewal() {
    let rig = Rig::new(Timing::FAST);
    let application = Application::start(Behavior::Fit);
    let elsewhere = Application::start(Behavior::Fit);
    let leader = asking(&rig, "a", &application)
        .flag("--fit-period", "150ms")
        .flag("--fit-failures", "1000")
        .start();
    rig.leader();
    let renewals = || {
        let name = "baton_renewals_total{election=\"orders\",outcome=\"applied\"}";
        leader.metric(name).unwrap_or_default()
    };
    let mean_gap = |behavior| {
        application.becomes(behavior);
        let asked = application.asked();
        eventually(NOTICE + NOISE, "it is asked", || application.asked() >= asked + 2);
        let (begun, before) = (rig.now(), renewals());
        wait_for(Duration::from_secs(20), "it renews twenty times", || {
            (renewals() >= before + 20.0).then_some(())
        });
        rig.now().since(begun).div_f64(renewals() - before)
    };
    let calm = mean_gap(Behavior::Fit);
    for behavior in [
        Behavior::Hanging,
        Behavior::Dripping,
        Behavior::Redirecting(elsewhere.address),
        Behavior::Flooding,
        Behavior::Informing,
    ] {
        let gap = mean_gap(behavior);
        println!("mean time between renewals: {gap:?} beside {behavior:?}, {calm:?} without");
        assert!(
            gap < calm + Duration::from_millis(20),
            "{gap:?} instead of {calm:?}: {behavior:?}"
        );
    }
    assert_eq!(elsewhere.asked(), 0, "no redirect is followed");
}
