"""Serves one component: serve.py PALISADE… -- COMPONENT CONNECT… -- NAME=VALUE…

The suite reads the address from the first line of stderr, and signals this process. So it becomes palisade, and a child
of it puts the lines in that order.
"""

import json
import os
import sys
import tempfile
from pathlib import Path


def relay(lines, out):
    """Passes lines on, the one with the address first."""
    held_back = []
    for line in lines:
        held_back.append(line)
        if "http://" in line:
            break
    for line in sorted(held_back, key=lambda line: "http://" not in line):
        print(line, end="", file=out, flush=True)
    for line in lines:
        print(line, end="", file=out, flush=True)


first = sys.argv.index("--")
last = sys.argv.index("--", first + 1)
palisade, (component, *connect), env = sys.argv[1:first], sys.argv[first + 1 : last], sys.argv[last + 1 :]
config = Path(tempfile.mkdtemp()) / "host.toml"
# A list or string of JSON's is one of TOML's.
config.write_text(f"""
[[listen]]
address = "127.0.0.1:0"

[services.case]
component = {json.dumps(str(Path(component).resolve()))}
policy.grants.connect = {json.dumps(connect)}
policy.grants.env = {json.dumps(env)}

[[route]]
service = "case"
""")
reader, writer = os.pipe()
if os.fork() == 0:
    os.close(writer)
    os.close(1)
    relay(os.fdopen(reader), sys.stderr)
    os._exit(0)
os.close(reader)
os.dup2(writer, 2)
os.execvp(palisade[0], [*palisade, "serve", str(config)])
