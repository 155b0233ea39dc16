//! A container with a terminal.

use super::fixture::{Bundle, users};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use serde_json::json;
use std::{
    io::{IoSliceMut, Read as _},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::net::UnixListener},
    thread,
};

fn master_of(listener: &UnixListener) -> OwnedFd {
    let (socket, _) = listener.accept().unwrap();
    let mut name = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(
        &socket,
        &mut [IoSliceMut::new(&mut name)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )
    .unwrap();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            return fds.next().unwrap();
        }
    }
    panic!("no terminal was sent");
}

#[test]
fn its_other_end_goes_to_the_engine() {
    for user in users() {
        let mut bundle = Bundle::new(
            user,
            "tty; test /dev/console -ef /dev/pts/0 && echo console; stty size",
        );
        bundle.config["process"]["terminal"] = json!(true);
        bundle.config["process"]["consoleSize"] = json!({ "height": 33, "width": 99 });
        bundle.write();
        // Longer than a name of a socket may be.
        let folder = bundle.path().join("f".repeat(100));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("s");
        let short = std::env::temp_dir().join(format!("palisade-{}", bundle.id));
        let listener = UnixListener::bind(&short).unwrap();
        std::fs::rename(&short, &path).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        let reader = thread::spawn(move || {
            let mut said = Vec::new();
            let mut master = std::fs::File::from(master_of(&listener));
            let mut buffer = [0; 1024];
            // EIO once nobody has the other end any more.
            while let Ok(length @ 1..) = master.read(&mut buffer) {
                said.extend_from_slice(&buffer[..length]);
            }
            String::from_utf8(said).unwrap()
        });
        // Read to its end: nothing of the container keeps what `create` writes to.
        let created = bundle
            .runtime()
            .args(["create", "--console-socket"])
            .args([&*path, bundle.id.as_ref()])
            .output()
            .unwrap();
        assert!(created.status.success(), "{user:?}: {created:?}");
        bundle.ask(&["start", &bundle.id]).succeeded();
        assert_eq!(
            reader.join().unwrap(),
            "/dev/pts/0\r\nconsole\r\n33 99\r\n",
            "{user:?}"
        );
    }
}

#[test]
fn without_anybody_to_take_it_there_is_none() {
    let mut bundle = Bundle::new(users()[0], "true");
    bundle.config["process"]["terminal"] = json!(true);
    bundle.write();
    bundle
        .ask(&["create", &bundle.id])
        .refused_with("--console-socket");
}
