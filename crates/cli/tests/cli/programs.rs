//! Real programs, unmodified, with only what they were granted.

use super::fixture::{Fixture, User, cases};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

cases![
    python_works_in_a_granted_folder,
    python_threads_processes_and_sockets_of_its_own,
    bzip2_round_trip_of_64_mb,
    java_tells_its_version,
    java_lives_under_a_memory_limit,
    java_ends_when_it_takes_more_than_its_memory,
    go_lives_under_a_memory_limit,
    node_works_under_a_memory_limit,
    perl_works_in_a_granted_folder,
    a_shebang_is_followed,
    a_text_without_a_shebang_goes_to_the_shell,
    gcc_builds_a_program_that_runs,
    git_makes_a_repository,
    a_shell_pipeline_gives_the_last_code,
    what_the_kernel_calls_invalid_is_invalid,
];

/// Flags for a memory limit that this user can have on this machine.
fn memory<'a>(fixture: &Fixture, size: &'a str) -> Vec<&'a str> {
    match fixture.user {
        User::Root => vec!["--memory", size],
        // Accepted beforehand: without a delegated control group there is an approximation only.
        User::Ordinary => vec!["--memory", size, "--allow-degraded", "memory"],
    }
}

fn run<'a>(flags: impl IntoIterator<Item = &'a str>, command: &[&'a str]) -> Vec<&'a str> {
    let words = ["run"].into_iter().chain(flags).chain(["--"]);
    words.chain(command.iter().copied()).collect()
}

fn python_works_in_a_granted_folder(fixture: &Fixture) {
    fixture.write("in/numbers", "1\n2\n3\n");
    fixture.make_folder("out");
    fixture.write(
        "in/sum.py",
        "import json, pathlib, sys\n\
         numbers = [int(line) for line in open(sys.argv[1])]\n\
         pathlib.Path(sys.argv[2], 'sum.json').write_text(json.dumps({'sum': sum(numbers)}))\n",
    );
    let words = run(
        ["--read", "in", "--write", "out"],
        &["/usr/bin/python3", "in/sum.py", "in/numbers", "out"],
    );
    // The working directory is not granted as such, only what lies in it.
    let absolute = |word: &str| match word {
        "in" | "out" | "in/sum.py" | "in/numbers" => fixture.text(word),
        other => other.into(),
    };
    fixture
        .palisade(words.into_iter().map(absolute))
        .run()
        .prints("");
    assert_eq!(fixture.read("out/sum.json"), "{\"sum\": 6}");
}

fn python_threads_processes_and_sockets_of_its_own(fixture: &Fixture) {
    const SCRIPT: &str = "
import asyncio, multiprocessing, socket, subprocess, tempfile, threading
seen = []
threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(20)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
with multiprocessing.Pool(2) as pool: squares = pool.map(abs, [-1, -2, -3])
async def ticks(): await asyncio.sleep(0); return 7
left, right = socket.socketpair(); left.sendall(b'x'); byte = right.recv(1)
with tempfile.NamedTemporaryFile() as file: file.write(b'1'); file.flush()
out = subprocess.run(['sh', '-c', 'echo child | tr a-z A-Z'], capture_output=True, text=True).stdout
print(len(seen), squares, asyncio.run(ticks()), byte, out.strip())
";
    fixture
        .palisade(run([], &["/usr/bin/python3", "-c", SCRIPT]))
        .run()
        .prints("20 [1, 2, 3] 7 b'x' CHILD\n");
}

fn bzip2_round_trip_of_64_mb(fixture: &Fixture) {
    const BYTES: usize = 64 << 20;
    fixture.make_folder("work");
    // Compressible, but not trivially: a counter in text.
    let mut original = Vec::with_capacity(BYTES + 16);
    let mut number = 0u64;
    while original.len() < BYTES {
        original.extend_from_slice(number.to_string().as_bytes());
        original.push(b'\n');
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407)
            >> 8;
    }
    original.truncate(BYTES);
    fixture.write("work/data", "");
    fs::write(fixture.path("work/data"), &original).unwrap();
    let folder = fixture.text("work");
    let script = "bzip2 -1 data && test ! -e data && bunzip2 data.bz2";
    let flags = ["--write", &folder, "--cwd", &folder];
    fixture.script(&flags, script).run().prints("");
    assert!(fs::read(fixture.path("work/data")).unwrap() == original);
}

fn java_tells_its_version(fixture: &Fixture) {
    let outcome = fixture.palisade(run([], &["java", "-version"])).run();
    outcome.is(0);
    assert!(outcome.stderr.contains("openjdk version"), "{outcome:?}");
}

const JAVA_PROGRAM: &str = "
public class Main {
    public static void main(String[] arguments) throws Exception {
        int megabytes = Integer.parseInt(arguments[0]);
        byte[][] kept = new byte[megabytes][];
        for (int i = 0; i < megabytes; i++) { kept[i] = new byte[1 << 20]; java.util.Arrays.fill(kept[i], (byte) 1); }
        Thread[] threads = new Thread[8];
        for (int i = 0; i < 8; i++) { threads[i] = new Thread(() -> {}); threads[i].start(); }
        for (Thread thread : threads) thread.join();
        System.out.println(\"kept \" + kept.length);
    }
}
";

fn java_under(fixture: &Fixture, limit: &str, megabytes: &str) -> super::fixture::Outcome {
    fixture.write("Main.java", JAVA_PROGRAM);
    let source = fixture.text("Main.java");
    let mut flags = memory(fixture, limit);
    flags.extend(["--profile", "java", "--read", &source]);
    fixture
        .palisade(run(flags, &["java", &source, megabytes]))
        .run()
}

fn java_lives_under_a_memory_limit(fixture: &Fixture) {
    let outcome = java_under(fixture, "600M", "40");
    outcome.is(0);
    assert_eq!(outcome.text(), "kept 40\n");
}

fn java_ends_when_it_takes_more_than_its_memory(fixture: &Fixture) {
    let outcome = java_under(fixture, "400M", "2000");
    assert_ne!(outcome.code(), 0, "{outcome:?}");
    assert_eq!(outcome.text(), "");
}

/// A Go program, built once for all cases.
fn go_program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build_go_program).clone()
}

const GO_PROGRAM: &str = "package main

import (
\t\"fmt\"
\t\"os\"
\t\"strconv\"
\t\"sync\"
)

func main() {
\tmegabytes, _ := strconv.Atoi(os.Args[1])
\tkept := make([][]byte, megabytes)
\tvar group sync.WaitGroup
\tfor i := range kept {
\t\tgroup.Add(1)
\t\tgo func() {
\t\t\tdefer group.Done()
\t\t\tkept[i] = make([]byte, 1<<20)
\t\t\tfor j := range kept[i] {
\t\t\t\tkept[i][j] = 1
\t\t\t}
\t\t}()
\t}
\tgroup.Wait()
\tfmt.Println(\"kept\", len(kept))
}
";

fn build_go_program() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("palisade-go-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("main.go"), GO_PROGRAM).unwrap();
    let usual = Path::new("/usr/local/go/bin/go");
    let go = if usual.exists() {
        usual
    } else {
        Path::new("go")
    };
    let built = Command::new(go)
        .args(["build", "-o", "program", "main.go"])
        .env("GOCACHE", folder.join("cache"))
        .env("HOME", &folder)
        .env("GOFLAGS", "-mod=mod")
        .env("GO111MODULE", "off")
        .current_dir(&folder)
        .status()
        .expect("go is installed: `make test` sees to it");
    assert!(built.success());
    let _ = fs::remove_dir_all(folder.join("cache"));
    folder.join("program")
}

fn go_lives_under_a_memory_limit(fixture: &Fixture) {
    let program = go_program();
    let program = program.to_str().unwrap();
    let mut flags = memory(fixture, "200M");
    let grant = format!("{program}:/guest/program");
    flags.extend(["--no-system", "--read", &grant]);
    let call = |megabytes| {
        fixture
            .palisade(run(flags.clone(), &["/guest/program", megabytes]))
            .run()
    };
    call("50").prints("kept 50\n");
    let outcome = call("1000");
    assert_ne!(outcome.code(), 0, "{outcome:?}");
    assert_eq!(outcome.text(), "");
}

fn node_works_under_a_memory_limit(fixture: &Fixture) {
    const SCRIPT: &str = "
const { Worker } = require('worker_threads');
const zlib = require('zlib'), crypto = require('crypto');
const packed = zlib.gzipSync(Buffer.alloc(1 << 20, 'x'));
const hash = crypto.createHash('sha256').update(zlib.gunzipSync(packed)).digest('hex').slice(0, 8);
new Worker('require(\"worker_threads\").parentPort.postMessage(6 * 7)', { eval: true })
    .on('message', answer => console.log(answer, hash));
";
    let mut flags = memory(fixture, "1G");
    flags.extend(["--profile", "node"]);
    let outcome = fixture.palisade(run(flags, &["node", "-e", SCRIPT])).run();
    outcome.is(0);
    assert!(outcome.text().starts_with("42 "), "{outcome:?}");
}

fn perl_works_in_a_granted_folder(fixture: &Fixture) {
    fixture.write("words", "one two two three three three\n");
    let folder = fixture.text("");
    let script = "local $/; open(F, '<', 'words') or die; my %n; $n{$_}++ for split ' ', <F>; \
                  open(O, '>', 'counts') or die; print O join(',', map {\"$_=$n{$_}\"} sort keys %n);";
    let flags = ["--write", &folder];
    fixture
        .palisade(run(flags, &["perl", "-e", script]))
        .run()
        .prints("");
    assert_eq!(fixture.read("counts"), "one=1,three=3,two=2");
}

fn a_shebang_is_followed(fixture: &Fixture) {
    fixture.write_program(
        "tool",
        "#!/usr/bin/env python3\nimport sys; print('tool', *sys.argv[1:])\n",
    );
    let tool = fixture.text("tool");
    fixture
        .palisade(run(["--read", &tool], &[&tool, "a", "b c"]))
        .run()
        .prints("tool a b c\n");
}

fn a_text_without_a_shebang_goes_to_the_shell(fixture: &Fixture) {
    fixture.write_program("tool", "echo shell \"$@\"\n");
    let tool = fixture.text("tool");
    fixture
        .palisade(run(["--read", &tool], &[&tool, "a", "b c"]))
        .run()
        .prints("shell a b c\n");
}

fn gcc_builds_a_program_that_runs(fixture: &Fixture) {
    fixture.write(
        "hello.c",
        "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n",
    );
    let folder = fixture.text("");
    let build = "gcc -O1 -o hello hello.c && ./hello";
    fixture
        .script(&["--write", &folder, "--exec", &folder], build)
        .run()
        .prints("built\n");
    // Without the grant it builds, and what was built does not run.
    let outcome = fixture.script(&["--write", &folder], build).run();
    outcome.is(126);
    assert_eq!(outcome.text(), "");
}

fn git_makes_a_repository(fixture: &Fixture) {
    fixture.write("file", "content\n");
    let folder = fixture.text("");
    let script = "git init -q . && git -c user.name=n -c user.email=e add file && \
                  git -c user.name=n -c user.email=e commit -qm first && git log --format=%s";
    fixture
        .script(&["--write", &folder], script)
        .run()
        .prints("first\n");
    assert!(fixture.exists(".git/HEAD"));
}

fn a_shell_pipeline_gives_the_last_code(fixture: &Fixture) {
    let script = "seq 1 100000 | sort -rn | head -3 | tr '\\n' ' '; (exit 9)";
    let outcome = fixture.script(&[], script).run();
    outcome.is_silent(9);
    assert_eq!(outcome.text(), "100000 99999 99998 ");
}

/// memfd_create(2) with all flags: Chromium asks so, and takes any answer but `EINVAL` for a broken machine. Exit
/// code is the error's number.
fn what_the_kernel_calls_invalid_is_invalid(fixture: &Fixture) {
    const INVALID: i32 = 22;
    let ask = "my $name = \"x\"; syscall(319, $name, 0xffffffff); exit $!";
    let words = ["-e", ask];
    let bare = fixture.call(Path::new("/usr/bin/perl"), words).run();
    bare.is(INVALID);
    fixture.make_folder("work");
    for flags in [&[][..], &["--write", "work"]] {
        let guest = [&["run"], flags, &["--", "/usr/bin/perl"], &words].concat();
        fixture.palisade(guest).run().is_silent(INVALID);
    }
}
