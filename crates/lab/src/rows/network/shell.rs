//! `sva-f3`: a large file from sshd to a client (SVA-OS 2009, a kernel compiled to a safe virtual
//! instruction set). sshd is an ordinary user's, with keys of its own, and lets nobody else in.

use super::{
    WRITING,
    ends::{Client, CommandAt, Ends, Hello, Place, Side, add_own_folder, give_to_nobody},
};
use crate::{
    floor::Floor,
    network::Transport,
    rows::{
        Extent,
        operations::{Operations, Workload, rate},
    },
    sample::{Reading, Unit},
    subjects::server_program,
    workloads::Workloads,
};
use anyhow::{Context, ensure};
use palisade_wall::Command;
use std::{
    fs,
    path::{Path, PathBuf},
    process,
    rc::Rc,
};

pub(in crate::rows) static COPY: Operations = Operations {
    name: "sva-f3",
    title: "MB/s to the client with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::TwoEnds(
        lay_out,
        &[
            ("sshd", "openssh-server", "-V"),
            ("scp", "openssh-client", ""),
        ],
    ),
    walls: &[WRITING],
    operations: &[rate("file", "one file", 0.99, "~0")],
    unit: Unit::MegabytesPerSecond,
    floor: Floor::Filter,
    mean: None,
    least_times_bridged: None,
    original: Some("SVA-OS"),
    pinned: false,
    through_wasi: None,
};

fn lay_out(workloads: &Workloads, extent: Extent) -> anyhow::Result<Ends> {
    add_own_folder(workloads)?;
    let bytes = match extent {
        Extent::Full => 256 << 20,
        Extent::Quick => 64 << 20,
        Extent::Tiny => 1 << 20,
    };
    let file = workloads.files_folder().join("large");
    fs::write(&file, vec![b'x'; bytes]).context("host: cannot lay out a large file")?;
    for key in ["host", "client"] {
        add_key(&workloads.folder().join(key))?;
    }
    let host_key = workloads.files_folder().join("host");
    fs::copy(workloads.folder().join("host"), &host_key).context("host: cannot copy a key")?;
    give_to_nobody(&workloads.files_folder())?;
    Ok(Ends {
        inside: Side::Server,
        transport: Transport::Tcp,
        refuses_root: true,
        is_apart: false,
        server: sshd(workloads.folder().to_owned(), host_key)?,
        hello: Hello::Answers(b"", b"SSH-2.0"),
        clients: vec![scp(workloads.folder(), file, bytes)?],
        turns: extent.turns(3),
    })
}

fn add_key(path: &Path) -> anyhow::Result<()> {
    let keygen = process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .output();
    let output = keygen.context("host: cannot run ssh-keygen (apt-get install openssh-client)")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "host: ssh-keygen: {complaint}");
    Ok(())
}

/// It sends files and starts no program of the user's. Where it is the host's user it asks the host's
/// accounts (PAM), for it may not read their passwords to see that they are not locked.
fn sshd(folder: PathBuf, host_key: PathBuf) -> anyhow::Result<CommandAt> {
    let program = server_program("sshd").context("host: sshd is gone")?;
    let server = move |place: &Place| {
        let path = folder.join(format!("sshd-{}.conf", place.port));
        let asks_accounts = if place.uid.is_some() { "yes" } else { "no" };
        let text = format!(
            "ListenAddress {}\nPort {}\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\n\
             StrictModes no\nUsePAM {asks_accounts}\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nSubsystem sftp internal-sftp\nForceCommand internal-sftp\n",
            place.listens,
            place.port,
            host_key.display(),
            folder.join("client.pub").display(),
        );
        fs::write(&path, text).context("host: cannot write the settings of sshd")?;
        Ok(Command {
            program: program.clone().into(),
            arguments: vec!["-D".into(), "-e".into(), "-f".into(), path.into()],
        })
    };
    Ok(Box::new(server))
}

fn scp(folder: &Path, file: PathBuf, bytes: usize) -> anyhow::Result<Client> {
    let timed = folder.join("timed.sh");
    let program = server_program("scp").context("host: scp is gone")?;
    // To the ns, which no output of scp's is.
    let script =
        "#!/bin/sh\nset -e\nbegan=$(date +%s%N)\n\"$@\"\necho $(($(date +%s%N) - began))\n";
    fs::write(&timed, script).context("host: cannot lay out a script")?;
    let key = folder.join("client");
    let copy = folder.join("copy");
    let command = move |place: &Place| {
        let name = user_name(place.uid)?;
        let source = format!("{name}@{}:{}", place.connects, file.display());
        let options = [
            "BatchMode=yes",
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
        ];
        let mut arguments = vec![timed.clone().into(), program.clone().into()];
        arguments.extend(["-q", "-F", "none", "-i"].map(Into::into));
        arguments.push(key.clone().into());
        arguments.extend(
            options
                .iter()
                .flat_map(|option| ["-o".into(), option.into()]),
        );
        arguments.extend(["-P".into(), place.port.to_string().into()]);
        arguments.extend([source.into(), copy.clone().into()]);
        Ok(Command {
            program: "/bin/sh".into(),
            arguments,
        })
    };
    let read = move |said: &str| {
        let ns: f64 = said.trim().parse().context("no time")?;
        Ok(vec![Reading {
            measure: "file".to_owned(),
            unit: Unit::MegabytesPerSecond,
            values: vec![bytes as f64 * 1e3 / ns],
        }])
    };
    Ok(Client {
        command: Box::new(command),
        read: Rc::new(read),
        most_repeats: 0,
        may_hang: false,
        is_asked_once: false,
    })
}

/// What a user is called: `guest` behind a wall that has users of its own.
fn user_name(uid: Option<u32>) -> anyhow::Result<String> {
    let Some(uid) = uid else {
        return Ok("guest".to_owned());
    };
    let users = fs::read_to_string("/etc/passwd").context("host: cannot read /etc/passwd")?;
    let has_uid = |line: &&str| line.split(':').nth(2) == Some(&uid.to_string());
    let line = users.lines().find(has_uid);
    let name = line.and_then(|line| line.split(':').next());
    Ok(name
        .with_context(|| format!("host: uid {uid} has no name"))?
        .to_owned())
}
