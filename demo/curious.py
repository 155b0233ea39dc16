"""Looks around as a program should not. Tells what it could do; changes nothing but its own files.

usage: curious.py SECRET_FILE FOLDER PORT PID
"""

import os
import pathlib
import socket
import sys

secret, folder, port, pid = sys.argv[1:5]


def read_a_file():
    return pathlib.Path(secret).read_text().strip()


def read_the_environment():
    return os.environ["API_TOKEN"]


def see_other_processes():
    processes = [name for name in os.listdir("/proc") if name.isdigit()]
    if pid not in processes:
        raise FileNotFoundError(f"no process {pid}; it sees {len(processes)}, all of its own domain")
    return f"it sees {len(processes)}"


def signal_another_process():
    os.kill(int(pid), 0)
    return "it would have arrived"


def write_a_file():
    path = pathlib.Path(folder, "left-behind")
    path.write_text("x")
    path.unlink()
    return str(path)


def connect_to_this_machine():
    with socket.create_connection(("127.0.0.1", int(port)), timeout=5) as connection:
        return connection.recv(100).decode()


def run_what_it_wrote():
    path = pathlib.Path("/tmp", f"payload-{os.getpid()}")
    path.write_text("#!/bin/sh\necho it ran\n")
    path.chmod(0o755)
    try:
        return os.popen(f"{path} 2>&1").read().strip() if os.access(path, os.X_OK) else no_exec(path)
    finally:
        path.unlink()


def no_exec(path):
    raise PermissionError(13, "the folder is mounted noexec", str(path))


for attempt in (
    read_a_file,
    read_the_environment,
    see_other_processes,
    signal_another_process,
    write_a_file,
    connect_to_this_machine,
    run_what_it_wrote,
):
    name = attempt.__name__.replace("_", " ")
    try:
        print(f"  {name:<26}YES  {attempt()}")
    except (OSError, KeyError) as error:
        print(f"  {name:<26}no   {type(error).__name__}: {error}")
