//! A way to a server that forgets which session its client had: the server grants a new one to whoever comes, as some
//! that speak ZooKeeper's protocol do when a client comes back.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Where the number of the session stands in a client's first words: behind length, version, last transaction and time-out.
const SESSION: std::ops::Range<usize> = 20..28;

/// Passes connections on to a server, from an address of its own until the end of this process.
pub(crate) fn forgetful(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there are free ports");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // Whose connection fails is told by its end.
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
    let mut first_words = vec![0; SESSION.end];
    client.read_exact(&mut first_words)?;
    first_words[SESSION].fill(0);
    server.write_all(&first_words)?;
    let (mut replies, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let back = thread::spawn(move || {
        // An end of either kind is passed on as one.
        io::copy(&mut replies, &mut to_client).ok();
        to_client.shutdown(Shutdown::Both).ok();
    });
    io::copy(&mut client, &mut server).ok();
    server.shutdown(Shutdown::Both).ok();
    back.join().expect("copying does not panic");
    Ok(())
}
