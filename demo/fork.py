"""Starts children until it is stopped, a thousand at most."""

import os
import signal

children = []
try:
    while len(children) < 1000:
        child = os.fork()
        if child == 0:
            signal.pause()
        children.append(child)
except OSError as error:
    print(f"stopped after {len(children)} children: {error}")
for child in children:
    os.kill(child, signal.SIGKILL)
