//! Finds out how much processor time this process may use.
//!
//! Touches the cgroup file system. Start with [`processors`].

use crate::exec::cgroup::{self, Hierarchy};
use std::fs;
use std::path::{Path, PathBuf};

/// The smallest CPU quota of this process's cgroups and their ancestors, in processors; `None`
/// without one.
pub fn processors() -> Option<f64> {
    let [unified, cpu] = [Hierarchy::Unified, Hierarchy::Cpu].map(cgroup::own_folders);
    smallest(&unified, &cpu, |path| fs::read_to_string(path).unwrap_or_default())
}

/// The smallest quota of the folders of version 2 and of version 1's controller `cpu`.
fn smallest(unified: &[PathBuf], cpu: &[PathBuf], read: impl Fn(&Path) -> String) -> Option<f64> {
    let of_unified = unified.iter().map(|folder| read(&folder.join("cpu.max")));
    let of_cpu = cpu.iter().map(|folder| {
        let [allowed, period] = ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
            .map(|file| read(&folder.join(file)).trim().to_owned());
        format!("{allowed} {period}")
    });
    of_unified.chain(of_cpu).filter_map(|text| quota(&text)).min_by(f64::total_cmp)
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

    #[test]
    fn smallest_quota_of_the_ancestors_counts() {
        let read = |path: &Path| {
            let text = match path.to_str().unwrap() {
                "/two/app/cpu.max" => "max 100000\n",
                "/two/cpu.max" => "200000 100000\n",
                "/one/app/cpu.cfs_quota_us" => "-1\n",
                "/one/cpu.cfs_quota_us" => "25000\n",
                "/one/app/cpu.cfs_period_us" | "/one/cpu.cfs_period_us" => "50000\n",
                _ => "",
            };
            text.to_owned()
        };
        let folders = |version: &str| {
            [format!("/{version}/app"), format!("/{version}"), "/".to_owned()].map(PathBuf::from)
        };
        assert_eq!(smallest(&folders("two"), &[], read), Some(2.0));
        assert_eq!(smallest(&[], &folders("one"), read), Some(0.5));
        assert_eq!(smallest(&folders("two"), &folders("one"), read), Some(0.5));
        assert_eq!(smallest(&[], &[], read), None);
    }
}
