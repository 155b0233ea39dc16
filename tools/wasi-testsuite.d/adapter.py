"""How the runner of WebAssembly/wasi-testsuite starts palisade (its doc/adapters.md)."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PALISADE = shlex.split(os.environ["PALISADE"])
SERVE = Path(__file__).parent / "serve.py"


def get_name():
    return "palisade"


def get_version():
    said = subprocess.run(PALISADE + ["--version"], encoding="UTF-8", capture_output=True, check=True)
    return said.stdout.split()[1]


def get_timeout_seconds():
    return 60


def get_wasi_versions():
    return ["wasm32-wasip1", "wasm32-wasip3"]


def get_wasi_worlds():
    return ["wasi:cli/command", "wasi:http/service"]


def compute_argv(test_path, args_env_root, proposals, wasi_world, wasi_version):
    args, env, root = args_env_root
    # Addresses of the suite's own servers come as variables.
    servers = [value for value in env.values() if value.startswith("127.0.0.1:")]
    connect = [f"tcp://{server}" for server in servers]
    listen = []
    if "sockets" in proposals:
        # Some cases hold where a socket is bound against other addresses than it may have.
        connect += ["tcp://localhost:*", "udp://localhost:*"]
        listen += ["tcp://localhost:*", "udp://localhost:*", "tcp://localhost:0", "udp://localhost:0"]
    if wasi_world == "wasi:http/service":
        variables = [f"{name}={value}" for name, value in env.items()]
        return [sys.executable, str(SERVE), *PALISADE, "--", test_path, *connect, "--", *variables]
    flags = [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    flags += [word for address in connect for word in ("--connect", address)]
    flags += [word for address in listen for word in ("--listen", address)]
    if root:
        # A copy: what one case leaves behind fails another.
        own = Path(tempfile.mkdtemp()) / "root"
        shutil.copytree(root, own, symlinks=True)
        flags += ["--write", f"{own}:/"]
    return [*PALISADE, "run", *flags, "--", str(Path(test_path).resolve()), *args]
