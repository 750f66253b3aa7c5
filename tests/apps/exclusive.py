# SPDX-License-Identifier: MIT
# exclusive.py ADDRESS: a listener waits in an epoll set as one of several would (EPOLLEXCLUSIVE);
# what it accepts is an ordinary connection. Talks over one until SIGTERM.
import select
import signal
import socket
import sys

listener = socket.socket()
listener.bind((sys.argv[1], 0))
listener.listen()
epoll = select.epoll()
epoll.register(listener.fileno(), select.EPOLLIN | select.EPOLLEXCLUSIVE)
client = socket.create_connection(listener.getsockname())
epoll.poll(10)
server, _ = listener.accept()
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
print("talking", flush=True)
turn = 0
while not stopped:
    turn += 1
    client.sendall(bytes([turn % 256]) * 1000)
    got = b""
    while len(got) < 1000:
        got += server.recv(65536)
    assert got == bytes([turn % 256]) * 1000
    server.sendall(b"y")
    assert client.recv(1) == b"y"
print("all came")
