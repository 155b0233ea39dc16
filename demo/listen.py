"""Greets everybody who connects, on a port of the loopback that it prints."""

import socket

with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"hello from a server on this machine")
