# SPDX-License-Identifier: MIT
"""Opens many connections to itself, sends over each, prints how many worked."""
import socket
import sys

count = int(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0), backlog=64)
pairs = []
for i in range(count):
    client = socket.create_connection(listener.getsockname())
    pairs.append((client, listener.accept()[0]))
for client, server in pairs:
    client.sendall(b"ping")
    server.sendall(server.recv(4))
print(sum(client.recv(4) == b"ping" for client, _ in pairs))
