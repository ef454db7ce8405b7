//! A socket pair that carries one message per packet, and once a descriptor.
//!
//! Touches sockets. Start with [`pair`]. The child gets its end as descriptor 0, and its real
//! standard input over the channel. So the command inherits no descriptor of Baton, from which it
//! could read the guard's messages.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most bytes of one message.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// One end of the channel. It keeps the boundaries of messages.
#[derive(Debug)]
pub struct Channel(OwnedFd);

/// A message, or the end of the channel.
#[derive(Debug)]
pub enum Received<T> {
    /// A message, and the descriptor that came with it.
    Message(T, Option<OwnedFd>),
    /// There is no message at present.
    Nothing,
    /// The other end is closed: its process has ended.
    Closed,
}

/// Creates both ends. Neither is inherited by a child that does not ask for it.
pub fn pair() -> io::Result<(Channel, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((Channel(ours), theirs))
}

impl Channel {
    /// Takes the channel that the parent passed as standard input, which then is `/dev/null`.
    pub fn from_stdin() -> io::Result<Self> {
        let ours = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
        let null = std::fs::File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(null)?;
        Ok(Self(ours))
    }

    /// Sends `message`, with a descriptor if one is given, and never blocks: a peer that does not
    /// read is an error.
    pub fn send(
        &self,
        message: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let text = serde_json::to_vec(message).expect("messages serialize");
        let descriptors: Vec<_> = descriptor.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut ancillary, flags)?;
        Ok(())
    }

    /// Receives a message that is there already.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<Received<T>> {
        self.receive_with(RecvFlags::DONTWAIT)
    }

    /// Waits for a message.
    pub fn wait<T: DeserializeOwned>(&self) -> io::Result<Received<T>> {
        self.receive_with(RecvFlags::empty())
    }

    /// A socket of tokio that becomes readable with this channel.
    pub fn readiness(&self) -> io::Result<tokio::net::UnixStream> {
        let socket = std::os::unix::net::UnixStream::from(self.0.try_clone()?);
        socket.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(socket)
    }

    fn receive_with<T: DeserializeOwned>(&self, flags: RecvFlags) -> io::Result<Received<T>> {
        let mut text = vec![0; MAX_MESSAGE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = flags | RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            let mut buffers = [IoSliceMut::new(&mut text)];
            match recvmsg(&self.0, &mut buffers, &mut ancillary, flags) {
                Ok(received) => break received,
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                // The other end closed with a message of ours unread. Its last ones follow.
                Err(Errno::CONNRESET | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        };
        if received.bytes == 0 {
            return Ok(Received::Closed);
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::other("a message is longer than 8 KiB"));
        }
        let mut descriptor = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptor = rights.last();
            }
        }
        let message = serde_json::from_slice(&text[..received.bytes])?;
        Ok(Received::Message(message, descriptor))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read as _;

    #[test]
    fn messages_and_descriptors_arrive_in_order() {
        let (ours, theirs) = pair().unwrap();
        let theirs = Channel(theirs);
        let path = format!("/proc/{}/comm", std::process::id());
        ours.send(&1, Some(File::open(path).unwrap().as_fd())).unwrap();
        ours.send(&2, None).unwrap();
        let Received::Message(1, Some(descriptor)) = theirs.receive::<u8>().unwrap() else {
            panic!("the first message has a descriptor")
        };
        let mut text = String::new();
        File::from(descriptor).read_to_string(&mut text).unwrap();
        assert!(!text.is_empty());
        assert!(matches!(theirs.receive::<u8>().unwrap(), Received::Message(2, None)));
        assert!(matches!(theirs.receive::<u8>().unwrap(), Received::Nothing));
        drop(ours);
        assert!(matches!(theirs.receive::<u8>().unwrap(), Received::Closed));
    }

    #[test]
    fn last_message_arrives_although_one_of_ours_was_not_read() {
        let (ours, theirs) = pair().unwrap();
        let theirs = Channel(theirs);
        theirs.send(&1, None).unwrap();
        ours.send(&2, None).unwrap();
        drop(theirs);
        assert!(matches!(ours.receive::<u8>().unwrap(), Received::Message(1, None)));
        assert!(matches!(ours.receive::<u8>().unwrap(), Received::Closed));
    }

    #[test]
    fn peer_that_does_not_read_never_blocks() {
        let (ours, _theirs) = pair().unwrap();
        let failed = (0..100_000).any(|number| ours.send(&number, None).is_err());
        assert!(failed);
    }
}
