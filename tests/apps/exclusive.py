# SPDX-License-Identifier: MIT
# exclusive.py ADDRESS: a listener waits in an epoll set as one of several would (EPOLLEXCLUSIVE);
# what it accepts is an ordinary connection.
import select
import socket
import sys
import time

listener = socket.socket()
listener.bind((sys.argv[1], 0))
listener.listen()
epoll = select.epoll()
epoll.register(listener.fileno(), select.EPOLLIN | select.EPOLLEXCLUSIVE)
client = socket.create_connection(listener.getsockname())
epoll.poll(10)
server, _ = listener.accept()
for turn in range(2000):
    client.sendall(bytes([turn % 256]) * 1000)
    got = b""
    while len(got) < 1000:
        got += server.recv(65536)
    assert got == bytes([turn % 256]) * 1000
    server.sendall(b"y")
    assert client.recv(1) == b"y"
    time.sleep(0.001)  # the two ends find each other meanwhile
print("2000 turns")
