//! A proxy that strips the session ID from a client's connect request, so the server grants a new
//! session, as some implementations of ZooKeeper's protocol do on a reconnect.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// The session ID in a connect request: after length, version, last transaction, and timeout.
const SESSION: std::ops::Range<usize> = 20..28;

/// Starts the proxy, on an address of its own, until this process ends.
pub(crate) fn strip_sessions(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are free ports");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A failed connection is closed, which is all that the client needs.
            thread::spawn(move || pass_on(&client, server).ok());
        }
    });
    address
}

fn pass_on(mut client: &TcpStream, server: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(server)?;
    for stream in [client, &server] {
        stream.set_nodelay(true)?;
    }
    let mut connect_request = vec![0; SESSION.end];
    client.read_exact(&mut connect_request)?;
    connect_request[SESSION].fill(0);
    server.write_all(&connect_request)?;
    let (mut replies, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let back = thread::spawn(move || {
        // A failure is passed on as an end of the stream.
        io::copy(&mut replies, &mut to_client).ok();
        to_client.shutdown(Shutdown::Both).ok();
    });
    io::copy(&mut client, &mut server).ok();
    server.shutdown(Shutdown::Both).ok();
    back.join().expect("copying does not panic");
    Ok(())
}
