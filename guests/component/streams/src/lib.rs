//! A component of WASI 0.3: its waits are the host's, all at one time. The first argument says what.

use futures::join;
use wasip3::{
    cli::{environment::get_arguments, exit::exit_with_code, stdin, stdout},
    clocks::monotonic_clock::{now, wait_for},
    exports::cli::run::Guest,
    filesystem::{
        preopens::get_directories,
        types::{DescriptorFlags, OpenFlags, PathFlags},
    },
    wit_stream,
};

struct Program;

wasip3::cli::command::export!(Program);

impl Guest for Program {
    async fn run() -> Result<(), ()> {
        let words = get_arguments();
        match words.get(1).map_or("", String::as_str) {
            "hello" => say("hello\n").await,
            "copy" => copy().await,
            "wait" => wait().await,
            "read" => read(words.get(2).ok_or(())?).await,
            "code" => exit_with_code(words.get(2).ok_or(())?.parse().map_err(drop)?),
            "trap" => {
                say("no line").await;
                unreachable!();
            }
            _ => return Err(()),
        }
        Ok(())
    }
}

async fn say(words: &str) {
    let (mut writer, reader) = wit_stream::new();
    let (written, ()) = join!(
        async { stdout::write_via_stream(reader).await },
        async {
            let left = writer.write_all(words.as_bytes().to_vec()).await;
            assert!(left.is_empty());
            drop(writer);
        }
    );
    written.expect("write to stdout");
}

/// One stream of the host's is given to another.
async fn copy() {
    let (input, ended) = stdin::read_via_stream();
    stdout::write_via_stream(input).await.expect("write to stdout");
    ended.await.expect("read of stdin");
}

/// Three waits of 30 ms at one time take one, not three.
async fn wait() {
    const WAIT_NS: u64 = 30_000_000;
    let began = now();
    join!(wait_for(WAIT_NS), wait_for(WAIT_NS), wait_for(WAIT_NS));
    let took = now() - began;
    let verdict = if took < 3 * WAIT_NS { "at one time\n" } else { "one by one\n" };
    say(verdict).await;
}

/// Opens a file of the working directory and gives it to stdout.
async fn read(name: &str) {
    let folders = get_directories();
    let (folder, _) = folders.last().expect("a working directory");
    let opened = folder
        .open_at(PathFlags::SYMLINK_FOLLOW, name.to_owned(), OpenFlags::empty(), DescriptorFlags::READ)
        .await;
    match opened {
        Ok(file) => {
            let (bytes, ended) = file.read_via_stream(0);
            stdout::write_via_stream(bytes).await.expect("write to stdout");
            ended.await.expect("read the file");
        }
        Err(code) => say(&format!("{code:?}\n")).await,
    }
}
