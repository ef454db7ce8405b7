//! Finds out how much processor time this process may use.
//!
//! Touches the cgroup file system. Start with [`processors`].

use std::fs;

/// The CPU quota of this container in processors; `None` without one.
pub fn processors() -> Option<f64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    if let Some(text) = read("/sys/fs/cgroup/cpu.max") {
        return quota(&text);
    }
    let [allowed, period] = ["cfs_quota_us", "cfs_period_us"]
        .map(|name| read(&format!("/sys/fs/cgroup/cpu/cpu.{name}")).unwrap_or_default());
    quota(&format!("{} {}", allowed.trim(), period.trim()))
}

/// Parses `cpu.max`: the time per period, and the period. `max` and -1 mean no quota.
fn quota(text: &str) -> Option<f64> {
    let (allowed, period) = text.trim().split_once(' ')?;
    let (allowed, period): (f64, f64) = (allowed.parse().ok()?, period.parse().ok()?);
    (allowed > 0.0 && period > 0.0).then(|| allowed / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_is_a_share_of_the_period() {
        assert_eq!(quota("10000 100000\n"), Some(0.1));
        assert_eq!(quota("max 100000\n"), None);
        assert_eq!(quota("-1 100000"), None);
        assert_eq!(quota(" "), None);
    }
}
