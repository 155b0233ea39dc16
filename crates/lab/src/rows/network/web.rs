//! The rows of web servers behind the wall, each with a client that has none: files of nginx (SVA-OS
//! 2009, a kernel compiled to a safe virtual instruction set), and documents out of memory (Denali 2002,
//! an isolation kernel for small services).

use super::{
    READING, WRITING,
    ends::{Client, CommandAt, Ends, Hello, Place, Side, add_own_folder, give_to_nobody},
    streams::{asking, serving},
};
use crate::{
    floor::Floor,
    network::Transport,
    rows::{
        Extent,
        operations::{Operations, Workload, operation, rate},
    },
    sample::{Reading, Unit},
    subjects::server_program,
    workloads::Workloads,
};
use anyhow::Context;
use palisade_wall::Command;
use std::{fs, path::PathBuf, rc::Rc};

pub(in crate::rows) static FILES: Operations = Operations {
    name: "sva-f2",
    title: "MB/s to the client with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::TwoEnds(
        lay_out_files,
        &[
            ("nginx", "nginx-light", "-v"),
            ("ab", "apache2-utils", "-V"),
        ],
    ),
    walls: &[WRITING],
    operations: &[
        rate("file-1", "files of 1 KB", 0.99, "−9 %"),
        rate("file-4", "files of 4 KB", 0.99, "−9 %"),
        rate("file-16", "files of 16 KB", 0.99, "−9 %"),
        rate("file-32", "files of 32 KB", 0.99, "−9 %"),
        rate("file-64", "files of 64 KB", 0.99, "~0"),
        rate("file-256", "files of 256 KB", 0.99, "~0"),
        rate("file-1024", "files of 1 MB", 0.99, "~0"),
    ],
    unit: Unit::MegabytesPerSecond,
    floor: Floor::Filter,
    mean: None,
    least_times_bridged: None,
    original: Some("SVA-OS"),
    pinned: false,
    through_wasi: None,
};

/// Of the operations' keys.
const SIZES_KB: [usize; 7] = [1, 4, 16, 32, 64, 256, 1024];

fn lay_out_files(workloads: &Workloads, extent: Extent) -> anyhow::Result<Ends> {
    add_own_folder(workloads)?;
    for size_kb in SIZES_KB {
        let file = workloads.add_text(&size_kb.to_string(), size_kb << 10)?;
        give_to_nobody(&file)?;
    }
    let requests = match extent {
        Extent::Full => 500,
        Extent::Quick => 200,
        Extent::Tiny => 50,
    };
    let clients = SIZES_KB.map(|size_kb| fetching(size_kb, requests));
    Ok(Ends {
        inside: Side::Server,
        transport: Transport::Tcp,
        // As root it would change to a user of its own, and its worker would be another's.
        refuses_root: true,
        is_apart: true,
        server: nginx(workloads.folder().to_owned(), workloads.files_folder())?,
        hello: Hello::Answers(b"GET /1 HTTP/1.0\r\n\r\n", b"HTTP/1.1 200"),
        clients: clients.into_iter().collect::<anyhow::Result<_>>()?,
        turns: extent.turns(3),
    })
}

/// One process; everything that it writes is in the folder of files.
fn nginx(settings: PathBuf, files: PathBuf) -> anyhow::Result<CommandAt> {
    let program = server_program("nginx").context("host: nginx is gone")?;
    let server = move |place: &Place| {
        let path = settings.join(format!("nginx-{}.conf", place.port));
        let files = files.display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|one| format!("    {one}_temp_path {files}/{one};\n"));
        let text = format!(
            "daemon off;\nmaster_process off;\npid {files}/pid;\nerror_log stderr crit;\n\
             events {{}}\nhttp {{\n    access_log off;\n    sendfile on;\n    tcp_nopush on;\n{}    \
             server {{\n        listen {}:{};\n        root {files};\n    }}\n}}\n",
            temporary.concat(),
            place.listens,
            place.port,
        );
        fs::write(&path, text).context("host: cannot write the settings of nginx")?;
        Ok(Command {
            program: program.clone().into(),
            arguments: vec!["-e".into(), "stderr".into(), "-c".into(), path.into()],
        })
    };
    Ok(Box::new(server))
}

/// `ab`, 25 connections at a time.
fn fetching(size_kb: usize, requests: usize) -> anyhow::Result<Client> {
    let program = server_program("ab").context("host: ab is gone")?;
    let command = move |place: &Place| {
        let url = format!("http://{}:{}/{size_kb}", place.connects, place.port);
        let words = ["-q", "-n", &requests.to_string(), "-c", "25", &url];
        Ok(Command {
            program: program.clone().into(),
            arguments: words.map(Into::into).into(),
        })
    };
    Ok(Client {
        command: Box::new(command),
        read: Rc::new(move |said| Ok(vec![transfer_rate(said, size_kb)?])),
        most_repeats: 0,
        may_hang: false,
        is_asked_once: false,
    })
}

/// From what `ab` prints. It counts errors, and goes on.
fn transfer_rate(said: &str, size_kb: usize) -> anyhow::Result<Reading> {
    let number = |title: &str| {
        let line = said.lines().find(|line| line.starts_with(title))?;
        line[title.len()..].split_whitespace().next()?.parse().ok()
    };
    let failed: f64 = number("Failed requests:").context("ab says nothing of failures")?;
    let refused: f64 = number("Non-2xx responses:").unwrap_or(0.0);
    anyhow::ensure!(
        failed + refused == 0.0,
        "{failed} requests failed, {refused} were refused"
    );
    let kb_per_second: f64 = number("Transfer rate:").context("ab says no rate")?;
    Ok(Reading {
        measure: format!("file-{size_kb}"),
        unit: Unit::MegabytesPerSecond,
        values: vec![kb_per_second * 1024.0 / 1e6],
    })
}

pub(in crate::rows) static REPLY: Operations = Operations {
    name: "kp-6",
    title: "µs of an answer with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::InTurn(lay_out_reply, &[("nginx", "nginx-light", "-v")]),
    operations: &[operation("reply", "a file of 1 KB", 1.02, "VM 2–2.5")],
    unit: Unit::Microseconds,
    original: Some("plugins"),
    ..FILES
};

fn lay_out_reply(workloads: &Workloads, _extent: Extent) -> anyhow::Result<Ends> {
    add_own_folder(workloads)?;
    give_to_nobody(&workloads.add_text("1", 1 << 10)?)?;
    Ok(Ends {
        inside: Side::Server,
        transport: Transport::Tcp,
        refuses_root: true,
        is_apart: true,
        server: nginx(workloads.folder().to_owned(), workloads.files_folder())?,
        hello: Hello::Answers(b"GET /1 HTTP/1.0\r\n\r\n", b"HTTP/1.1 200"),
        // They are the lab's own, and ask everybody in turn.
        clients: Vec::new(),
        turns: 1,
    })
}

pub(in crate::rows) static DOCUMENTS: Operations = Operations {
    name: "den-f3",
    title: "µs of one document with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::TwoEnds(lay_out_documents, &[]),
    walls: &[READING],
    // A throughput of at least 0.99 is a time of at most that much more.
    operations: &[
        operation("document-1", "1 KB", 1.01, ""),
        operation("document-5", "5 KB", 1.01, ""),
        operation("document-10", "10 KB", 1.01, ""),
        operation("document-50", "50 KB", 1.01, "≤ +67 %"),
        operation("document-100", "100 KB", 1.01, "≤ +67 %"),
        operation("document-500", "500 KB", 1.01, ""),
    ],
    unit: Unit::Microseconds,
    original: Some("Denali"),
    ..FILES
};

fn lay_out_documents(workloads: &Workloads, extent: Extent) -> anyhow::Result<Ends> {
    let program = workloads.add_pages()?;
    let repeats = match extent {
        Extent::Full | Extent::Quick => 3,
        Extent::Tiny => 2,
    };
    Ok(Ends {
        inside: Side::Server,
        transport: Transport::Tcp,
        refuses_root: false,
        is_apart: true,
        server: serving(program.clone()),
        hello: Hello::Says("ready"),
        clients: vec![asking(program, "ask", repeats, Unit::Microseconds)],
        turns: extent.turns(4),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_and_a_failure_is_one() {
        let said =
            "Failed requests:        0\nTransfer rate:          63684.46 [Kbytes/sec] received\n";
        let reading = transfer_rate(said, 4).unwrap();
        assert_eq!(
            (reading.measure.as_str(), reading.values[0].round()),
            ("file-4", 65.0)
        );
        for failed in [
            said.replace("     0\n", "     3\n"),
            format!("{said}Non-2xx responses:      50\n"),
            String::new(),
        ] {
            assert!(transfer_rate(&failed, 4).is_err(), "{failed}");
        }
    }
}
