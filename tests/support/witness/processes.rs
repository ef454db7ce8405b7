//! The processes on this node by Pod: signals to them, and their resource usage.

use super::record::{Memory, Usage};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Sends a signal to the program with this name in a Pod.
pub(crate) fn signal(pod: &str, program: &str, signal: Signal) -> io::Result<()> {
    let id = find(pod, program)?
        .file_name()
        .and_then(|id| id.to_str()?.parse().ok())
        .and_then(Pid::from_raw);
    Ok(kill_process(id.expect("find returns folders named by a process id"), signal)?)
}

/// The usage of the container of that program, by cgroup version 1 or 2.
pub(crate) fn usage(pod: &str, program: &str) -> io::Result<Usage> {
    let groups = fs::read_to_string(find(pod, program)?.join("cgroup"))?;
    let group = |controller: &str| {
        let mut lines = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        lines
            .find(|(controllers, _)| controllers.split(',').any(|one| one == controller))
            .map(|(_, path)| path)
    };
    let read = |controller: &str, path: &str, file: &str| {
        let file = Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(path.trim_start_matches('/'))
            .join(file);
        fs::read_to_string(&file)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))
    };
    let number = |text: String| text.trim().parse::<u64>().map_err(io::Error::other);
    if let (Some(memory), Some(cpu)) = (group("memory"), group("cpuacct")) {
        return Ok(Usage {
            memory_bytes: number(read("memory", memory, "memory.usage_in_bytes")?)?,
            peak_memory_bytes: number(read("memory", memory, "memory.max_usage_in_bytes")?)?,
            cpu_microseconds: number(read("cpuacct", cpu, "cpuacct.usage")?)? / 1000,
        });
    }
    let unified = group("").unwrap_or_default();
    let cpu = read("", unified, "cpu.stat")?;
    let used = cpu
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "))
        .unwrap_or_default()
        .to_owned();
    Ok(Usage {
        memory_bytes: number(read("", unified, "memory.current")?)?,
        peak_memory_bytes: number(read("", unified, "memory.peak")?)?,
        cpu_microseconds: number(used)?,
    })
}

/// The memory of each process of that program, by `/proc/PID/smaps_rollup`.
pub(crate) fn memory(pod: &str, program: &str) -> io::Result<Vec<Memory>> {
    let of = |process: PathBuf| {
        let arguments = fs::read(process.join("cmdline"))?;
        let role = arguments.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        let sizes = fs::read_to_string(process.join("smaps_rollup"))?;
        // Pss:                1234 kB
        let size = |name: &str| {
            let mut lines = sizes.lines().filter_map(|line| line.split_once(':'));
            let (_, size) = lines
                .find(|(key, _)| *key == name)
                .ok_or_else(|| io::Error::other(format!("no {name} in {sizes:?}")))?;
            size.trim().trim_end_matches(" kB").parse::<u64>().map_err(io::Error::other)
        };
        Ok(Memory {
            role: String::from_utf8_lossy(role).into_owned(),
            resident_kib: size("Rss")?,
            proportional_kib: size("Pss")?,
            anonymous_kib: size("Anonymous")?,
        })
    };
    find_all(pod, program)?.into_iter().map(of).collect()
}

/// The `/proc` folder of the program with this name in a Pod.
fn find(pod: &str, program: &str) -> io::Result<PathBuf> {
    let found = find_all(pod, program)?.into_iter().next();
    found.ok_or_else(|| io::Error::other(format!("no process of {program} in {pod} on this node")))
}

/// The `/proc` folders of all processes of that program. The runtime sets `HOSTNAME` in a container
/// to its Pod's name.
fn find_all(pod: &str, program: &str) -> io::Result<Vec<PathBuf>> {
    let host_name = format!("HOSTNAME={pod}");
    let is_it = |process: &Path| {
        let runs = fs::read_link(process.join("exe"))
            .is_ok_and(|exe| exe.file_name().is_some_and(|name| name == program));
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        runs && environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == host_name.as_bytes())
    };
    let processes = fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    let processes = processes.filter(|path| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit())
    });
    Ok(processes.filter(|process| is_it(process)).collect())
}
