//! Binds the listeners.
//!
//! Touches sockets. Start with [`bind`].

use crate::config::ListenAddress;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpListener;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;
/// The size to request for each socket buffer of a connection; the kernel allocates twice as much.
/// Larger than any request or answer, and counted against the container's memory limit.
const KERNEL_BUFFER_BYTES: usize = 16 << 10;
/// How long the kernel keeps data that a client does not acknowledge, even after the connection is
/// closed.
const USER_TIMEOUT: Duration = Duration::from_secs(5);

/// An address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: free it, or pass another --{flag}")]
pub struct ListenError {
    flag: &'static str,
    address: SocketAddr,
    source: io::Error,
}

/// Bound listeners on one port.
#[derive(Debug)]
pub struct Listeners {
    /// One listener per bound socket.
    pub listeners: Vec<TcpListener>,
    /// The address of the first listener.
    pub address: SocketAddr,
}

/// Binds `listen`, the value of `flag`. Port 0 binds a free port.
pub fn bind(listen: ListenAddress, flag: &'static str) -> Result<Listeners, ListenError> {
    let error = |address| move |source| ListenError { flag, address, source };
    let (first, second) = match listen {
        ListenAddress::At(address) => (address, None),
        ListenAddress::Localhost(port) => {
            ((Ipv4Addr::LOCALHOST, port).into(), Some(Ipv6Addr::LOCALHOST))
        }
        ListenAddress::Everywhere(port) => {
            return bind_everywhere(port).map_err(error((Ipv6Addr::UNSPECIFIED, port).into()));
        }
    };
    let listener = socket(first).map_err(error(first))?;
    let address = listener.local_addr().map_err(error(first))?;
    let mut listeners = vec![listener];
    if let Some(ip) = second {
        let address = SocketAddr::from((ip, address.port()));
        match socket(address) {
            Ok(listener) => listeners.push(listener),
            // A machine without IPv6 has only the IPv4 loopback.
            Err(error) if is_missing_family(&error) => {}
            Err(source) => return Err(error(address)(source)),
        }
    }
    Ok(Listeners { listeners, address })
}

/// Binds both address families on one socket, or IPv4 alone on a machine without IPv6.
fn bind_everywhere(port: u16) -> io::Result<Listeners> {
    let listener = match socket((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(error) if is_missing_family(&error) => socket((Ipv4Addr::UNSPECIFIED, port).into())?,
        bound => bound?,
    };
    let address = listener.local_addr()?;
    Ok(Listeners { listeners: vec![listener], address })
}

fn socket(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    // Connections of the previous process in TIME_WAIT must not delay a restart.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Accepted connections inherit these options.
    socket.set_recv_buffer_size(KERNEL_BUFFER_BYTES)?;
    socket.set_send_buffer_size(KERNEL_BUFFER_BYTES)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn is_missing_family(error: &io::Error) -> bool {
    let os = error.raw_os_error();
    [rustix::io::Errno::AFNOSUPPORT, rustix::io::Errno::ADDRNOTAVAIL]
        .iter()
        .any(|errno| os == Some(errno.raw_os_error()))
}
