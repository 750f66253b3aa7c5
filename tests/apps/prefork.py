#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Two workers that share a listener, as pre-forking servers have them, each with one connection.
#   prefork.py serve PORT    the workers: the second accepts when the first has
#   prefork.py ask PORT      two connections, used in turn until standard input ends
import os
import select
import socket
import sys


def echo(c):
    while data := c.recv(100):
        c.sendall(data)


def serve(port):
    listener = socket.create_server(("127.0.0.1", port))
    accepted, tell = os.pipe()
    for i in range(2):
        if os.fork() == 0:
            if i:
                os.read(accepted, 1)
            c, _ = listener.accept()
            c.sendall(b"!")
            os.write(tell, b"x")
            echo(c)
            sys.exit()
    os.wait()
    os.wait()


def ask(port):
    ends = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
    for c in ends:
        c.recv(1)
    while not select.select([0], [], [], 0.02)[0]:
        for c in ends:
            c.sendall(b"x" * 50)
            c.recv(50)


{"serve": serve, "ask": ask}[sys.argv[1]](int(sys.argv[2]))
