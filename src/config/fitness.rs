//! How the application is asked whether it is fit to lead.
//!
//! Pure. Start with [`FitnessConfig`].

use super::{ConfigError, ErrorCollector, ListenAddress, non_empty};
use crate::cli::Settings;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

/// The shortest period, which limits the load on the application.
const MIN_PERIOD: Duration = Duration::from_millis(100);
const DEFAULT_PERIOD: Duration = Duration::from_secs(2);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);
/// The most failures that make a leader unfit.
const MAX_FAILURES: u32 = 1_000;

/// How the application is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FitnessConfig {
    /// The URL that answers 2xx while the application is fit.
    pub url: LoopbackUrl,
    /// The time between two requests.
    pub period: Duration,
    /// How long a complete answer may take.
    pub timeout: Duration,
    /// How many failures in a row make the application unfit.
    pub failures: NonZeroU32,
}

/// An `http://` URL of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopbackUrl {
    /// The loopback address; `None` for both.
    ip: Option<IpAddr>,
    port: u16,
    authority: String,
    path: String,
}

impl LoopbackUrl {
    /// Parses `http://HOST[:PORT][/PATH]`, where HOST is `localhost` or a loopback address.
    fn parse(text: &str) -> Option<Self> {
        let uri: hyper::Uri = text.parse().ok()?;
        let authority = uri.authority()?;
        let is_plain = uri.scheme_str() == Some("http") && !authority.as_str().contains('@');
        let host = authority.host();
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let ip = match literal.unwrap_or(host) {
            "localhost" => None,
            host => Some(host.parse::<IpAddr>().ok().filter(IpAddr::is_loopback)?),
        };
        let port = match authority.port() {
            Some(port) => Some(port.as_u16()).filter(|port| *port > 0)?,
            None if authority.as_str() == host => 80,
            None => return None,
        };
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("{}{query}", uri.path());
        let authority = authority.as_str().to_owned();
        is_plain.then_some(Self { ip, port, authority, path })
    }

    /// Its addresses, in the order to try. `localhost` is not looked up.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let both = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let ips = self.ip.map_or_else(|| both.to_vec(), |ip| vec![ip]);
        ips.into_iter().map(|ip| SocketAddr::new(ip, self.port)).collect()
    }

    /// Host and port, as given.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether a listener at `listen` accepts its connections. Port 0 is not known yet.
    fn reaches(&self, listen: ListenAddress) -> bool {
        self.addresses().into_iter().any(|address| listen.accepts(address))
    }
}

impl fmt::Display for LoopbackUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// The values of `--fit-url`, `--fit-period`, `--fit-timeout`, and `--fit-failures`. `listeners` are
/// those of this process, with their flags.
pub(super) fn fitness(
    settings: &Settings,
    listeners: &[(&'static str, ListenAddress)],
    errors: &mut ErrorCollector,
) -> Option<FitnessConfig> {
    let mut duration = |flag, value: Option<&String>| errors.duration(flag, non_empty(value));
    let period = duration("fit-period", settings.fit_period.as_ref()).unwrap_or(DEFAULT_PERIOD);
    let timeout = duration("fit-timeout", settings.fit_timeout.as_ref());
    let timeout = timeout.unwrap_or_else(|| DEFAULT_TIMEOUT.min(period));
    let failures = non_empty(settings.fit_failures.as_ref()).unwrap_or("3");
    let failures = failures.parse().ok().filter(|count: &NonZeroU32| count.get() <= MAX_FAILURES);
    let failures =
        failures.ok_or_else(|| ConfigError::FitFailures(text(settings.fit_failures.as_ref())));
    let failures = errors.check(failures);
    if period < MIN_PERIOD {
        errors.0.push(ConfigError::FitPeriod { period, least: MIN_PERIOD });
    }
    if timeout.is_zero() || timeout > period {
        errors.0.push(ConfigError::FitTimeout { timeout, most: period });
    }
    let others = [&settings.fit_period, &settings.fit_timeout, &settings.fit_failures];
    let Some(url) = non_empty(settings.fit_url.as_ref()) else {
        if others.iter().any(|flag| non_empty(flag.as_ref()).is_some()) {
            errors.0.push(ConfigError::NoFitUrl);
        }
        return None;
    };
    let url =
        LoopbackUrl::parse(url).ok_or_else(|| ConfigError::FitUrl(text(settings.fit_url.as_ref())));
    let url = errors.check(url)?;
    for (flag, listen) in listeners {
        if url.reaches(*listen) {
            errors.0.push(ConfigError::FitUrlIsOurs { url: url.to_string(), flag });
        }
    }
    Some(FitnessConfig { url, period, timeout, failures: failures? })
}

fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_urls_of_this_machine_pass() {
        for (text, addresses, path) in [
            ("http://localhost:8080/fit", "127.0.0.1:8080 [::1]:8080", "/fit"),
            ("http://127.0.0.1", "127.0.0.1:80", "/"),
            ("http://127.8.9.1:1?deep=1", "127.8.9.1:1", "/?deep=1"),
            ("http://[::1]:9/", "[::1]:9", "/"),
        ] {
            let url = LoopbackUrl::parse(text).unwrap_or_else(|| panic!("{text}"));
            let found: Vec<_> = url.addresses().iter().map(ToString::to_string).collect();
            assert_eq!((found.join(" ").as_str(), url.path()), (addresses, path), "{text}");
        }
        for text in [
            "https://localhost/",
            "http://10.0.0.1/",
            "http://0.0.0.0:80/",
            "http://[::]:80/",
            "http://[::ffff:127.0.0.1]/",
            "http://localhost.example/",
            "http://user@localhost/",
            "http://localhost:0/",
            "http://localhost:99999/",
            "localhost:8080/fit",
            "/fit",
            "http:///fit",
        ] {
            assert_eq!(LoopbackUrl::parse(text), None, "{text}");
        }
    }

    #[test]
    fn url_of_our_own_listeners_is_found() {
        let url = LoopbackUrl::parse("http://localhost:4040/").unwrap();
        for (listen, is_ours) in [
            ("localhost:4040", true),
            (":4040", true),
            ("127.0.0.1:4040", true),
            ("[::]:4040", true),
            ("10.0.0.1:4040", false),
            ("localhost:4041", false),
        ] {
            assert_eq!(url.reaches(listen.parse().unwrap()), is_ours, "{listen}");
        }
        let other = LoopbackUrl::parse("http://127.0.0.2:4040/").unwrap();
        for (listen, is_ours) in
            [(":4040", true), ("0.0.0.0:4040", true), ("localhost:4040", false), (":4041", false)]
        {
            assert_eq!(other.reaches(listen.parse().unwrap()), is_ours, "{listen}");
        }
    }
}
