# SPDX-License-Identifier: MIT
# talk.py ADDRESS PORT: one connection to an echo server, used until standard input ends. Each
# message is told by its number, so that what is lost, repeated or out of order is seen.
import select
import socket
import sys

connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
rounds = 0
while not select.select([0], [], [], 0.01)[0]:
    rounds += 1
    said = str(rounds).encode().rjust(500)
    connection.sendall(said)
    heard = b""
    while len(heard) < len(said):
        part = connection.recv(500)
        assert part, "the echo server has gone"
        heard += part
    assert heard == said
print("all came")
