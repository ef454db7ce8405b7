//! Command-line arguments, one per line. Environment variables use the same parsers.

use baton::cli::{Cli, Command, Environment, Settings};
use baton::config::{Config, ConfigError, ElectionName, ListenAddress, StoreConfig};
use baton_election::timing::Durations;
use clap::Parser as _;
use zookeeper_client::servers::{Servers, check_path};

pub(super) fn read(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    names_and_addresses(text);
    // An argument cannot contain a zero byte.
    let arguments = text.split('\n').filter(|argument| !argument.contains('\0'));
    let Ok(cli) = Cli::try_parse_from(["baton"].into_iter().chain(arguments)) else { return };
    let (Command::Run(settings) | Command::CheckConfig(settings)) = cli.into_command() else {
        return;
    };
    for in_kubernetes in [false, true] {
        check_settings(&settings, in_kubernetes);
    }
}

/// Formatting a parsed value and parsing it again yields the same value.
fn names_and_addresses(text: &str) {
    if let Ok(servers) = text.parse::<Servers>() {
        assert!(
            !servers.hosts.is_empty() && servers.hosts.iter().all(|host| host.port != 0),
            "{servers:?}"
        );
        assert_eq!(servers.to_string().parse().as_ref(), Ok(&servers));
        assert!(servers.chroot.is_empty() || check_path(&servers.chroot).is_ok());
    }
    if let Ok(listen) = text.parse::<ListenAddress>() {
        assert_eq!(listen.to_string().parse(), Ok(listen));
    }
    if let Ok(name) = text.parse::<ElectionName>() {
        let is_plain =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        assert!(
            (1..=253).contains(&text.len()) && text.chars().all(is_plain) && !text.contains(".."),
            "{name}"
        );
        // The name is valid for a znode, a Lease and a directory.
        assert!(check_path(&format!("/{name}")).is_ok() && !text.starts_with('.'), "{name}");
    }
}

fn check_settings(settings: &Settings, in_kubernetes: bool) {
    let environment = Environment {
        in_kubernetes,
        pod_name: in_kubernetes.then(|| "orders-0".to_owned()),
        pod_namespace: in_kubernetes.then(|| "shop".to_owned()),
        pod_ips: in_kubernetes.then(|| "10.0.0.1,fd00::1".to_owned()),
        host_name: "host".to_owned(),
        wants_plain_text: false,
        notify: None,
    };
    match Config::new(settings, &environment) {
        Ok(config) => check_config(&config, settings),
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            let texts: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
            for mistake in &mistakes {
                follow_advice(settings, &environment, mistake);
            }
            assert!(texts.iter().all(|text| !text.is_empty()), "{texts:?}");
        }
    }
}

/// Two candidates with this configuration cannot lead at once: renew deadline × (1 + drift) < lease
/// duration × (1 − drift).
fn check_config(config: &Config, settings: &Settings) {
    let Durations { lease_duration, renew_deadline, retry_period, answer_validity } =
        config.timing.durations();
    let percent =
        settings.max_clock_drift.as_deref().filter(|text| !text.is_empty()).unwrap_or("10%");
    let percent: f64 = percent.trim_end_matches('%').trim().parse().expect("a valid percentage");
    let drift = percent / 100.0;
    let (renew, lease) = (
        renew_deadline.as_secs_f64() * (1.0 + drift),
        lease_duration.as_secs_f64() * (1.0 - drift),
    );
    // A float has only sixteen digits.
    assert!(renew < lease * (1.0 + 1e-12), "{renew} s is not below {lease} s");
    let attempt = (renew_deadline.saturating_sub(retry_period)) / 3;
    assert!(
        attempt * 3 + retry_period <= renew_deadline && !attempt.is_zero(),
        "three attempts do not fit into {renew_deadline:?}"
    );
    assert!(answer_validity < renew_deadline && !answer_validity.is_zero(), "{answer_validity:?}");
    match &config.store {
        StoreConfig::ZooKeeper(zookeeper) => {
            assert!(check_path(&zookeeper.path).is_ok(), "{}", zookeeper.path);
        }
        StoreConfig::Etcd(etcd) => {
            assert!(!etcd.endpoints.is_empty() && !etcd.prefix.ends_with('/'), "{etcd:?}");
        }
        StoreConfig::File { directory } => assert!(!directory.as_os_str().is_empty()),
        StoreConfig::Lease { .. } => {}
    }
}

/// An error about durations ends with flags that fix it: with them, all durations are valid.
fn follow_advice(settings: &Settings, environment: &Environment, mistake: &ConfigError) {
    let is_about_time = |mistake: &ConfigError| {
        matches!(mistake, ConfigError::Timing(..) | ConfigError::Session(..))
    };
    if !is_about_time(mistake) {
        return;
    }
    let text = mistake.to_string();
    let (_, flags) = text.split_once("these would pass: ").expect("the error suggests flags");
    let advice = Cli::try_parse_from(["baton"].into_iter().chain(flags.split(' ')))
        .expect("the suggested flags parse");
    let (Command::Run(advice) | Command::CheckConfig(advice)) = advice.into_command() else {
        panic!("{flags}")
    };
    let settings = Settings {
        lease_duration: advice.lease_duration,
        renew_deadline: advice.renew_deadline,
        retry_period: advice.retry_period,
        answer_validity: advice.answer_validity,
        ..settings.clone()
    };
    let mistakes = Config::new(&settings, environment).err().unwrap_or_default();
    let remaining: Vec<_> =
        mistakes.iter().filter(|mistake| is_about_time(mistake)).map(ToString::to_string).collect();
    assert!(remaining.is_empty(), "{text}\nwith the suggested flags:\n{}", remaining.join("\n"));
}
