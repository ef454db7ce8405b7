//! Binds the addresses that are listened at.
//!
//! Touches sockets; an address that cannot be had is an error of the surroundings, found before anything else begins.

use crate::config::Listen;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpListener;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 1024;
/// The kernel's buffer for a connection in each direction, of which it takes twice this: more than
/// any request or answer of ours needs. It counts against the memory limit of the container.
const KERNEL_BUFFER_BYTES: usize = 16 << 10;
/// How long the kernel keeps data that a client neither reads nor acknowledges, even after we close
/// the connection.
const USER_TIMEOUT: Duration = Duration::from_secs(5);

/// An address that cannot be listened at.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen at {address}: free it, or choose another by --{flag}")]
pub struct ListenError {
    flag: &'static str,
    address: SocketAddr,
    source: io::Error,
}

/// Bound listeners, all of one port.
#[derive(Debug)]
pub struct Listeners {
    /// One for each address.
    pub listeners: Vec<TcpListener>,
    /// The first of the addresses.
    pub address: SocketAddr,
}

/// Binds `listen`, which `flag` asked for. Port 0 takes a free one.
pub fn bind(listen: Listen, flag: &'static str) -> Result<Listeners, ListenError> {
    let error = |address| move |source| ListenError { flag, address, source };
    let (first, second) = match listen {
        Listen::At(address) => (address, None),
        Listen::Localhost(port) => ((Ipv4Addr::LOCALHOST, port).into(), Some(Ipv6Addr::LOCALHOST)),
        Listen::Everywhere(port) => {
            return everywhere(port).map_err(error((Ipv6Addr::UNSPECIFIED, port).into()));
        }
    };
    let listener = socket(first).map_err(error(first))?;
    let address = listener.local_addr().map_err(error(first))?;
    let mut listeners = vec![listener];
    if let Some(ip) = second {
        let address = SocketAddr::from((ip, address.port()));
        match socket(address) {
            Ok(listener) => listeners.push(listener),
            // A machine without IPv6 has one loopback.
            Err(error) if is_no_such_family(&error) => {}
            Err(source) => return Err(error(address)(source)),
        }
    }
    Ok(Listeners { listeners, address })
}

/// Both families on one socket; on a machine without IPv6 the one that there is.
fn everywhere(port: u16) -> io::Result<Listeners> {
    let listener = match socket((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(error) if is_no_such_family(&error) => socket((Ipv4Addr::UNSPECIFIED, port).into())?,
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
    // A restarted sidecar must not wait for the connections of the one before it to be forgotten.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Every connection inherits these.
    socket.set_recv_buffer_size(KERNEL_BUFFER_BYTES)?;
    socket.set_send_buffer_size(KERNEL_BUFFER_BYTES)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn is_no_such_family(error: &io::Error) -> bool {
    let os = error.raw_os_error();
    [rustix::io::Errno::AFNOSUPPORT, rustix::io::Errno::ADDRNOTAVAIL]
        .iter()
        .any(|errno| os == Some(errno.raw_os_error()))
}
