//! Requests to a Service, as its clients send them: the leader answers, another candidate does, or
//! none.

use super::record::Visit;
use super::{now, print};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketType, bind, connect, getsockname, socket};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

/// The time limit for each of connecting, sending, and receiving.
const TIMEOUT: Duration = Duration::from_millis(500);
/// The metric that is 1 on a leader.
const LEADS: &str = "baton_is_leader";

/// Sends requests until the process ends, each on a new connection.
pub(crate) fn send(service: SocketAddrV4, every: Duration) -> io::Result<()> {
    loop {
        let asked = now();
        let (socket, port) = bound()?;
        let is_leader = ask(socket, service).map_err(|error| error.to_string());
        print(&Visit { asked, answered: now(), port, is_leader });
        thread::sleep(every);
    }
}

/// A bound socket and its port, which is known even if the connection fails.
fn bound() -> io::Result<(OwnedFd, u16)> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, direction, Some(TIMEOUT))?;
    }
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0))?;
    let address = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok((socket, address.port()))
}

/// Whether the candidate that answers leads.
fn ask(socket: OwnedFd, service: SocketAddrV4) -> io::Result<bool> {
    connect(&socket, &service)?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let value = answer.lines().find(|line| line.starts_with(LEADS));
    let value = value.ok_or_else(|| io::Error::other(format!("no {LEADS} in {answer:?}")))?;
    Ok(value.ends_with(" 1"))
}
