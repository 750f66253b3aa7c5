# SPDX-License-Identifier: MIT
"""A client of echo.py that prints its port and then, for each line that it reads, sends bytes to and
fro and compares them."""
import hashlib
import socket
import sys

with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as s:
    print("port", s.getsockname()[1], flush=True)
    for line in sys.stdin:
        for i in range(200):
            data = hashlib.sha256(line.encode() + bytes([i])).digest() * (1 + i * i % 97)
            s.sendall(data)
            got = b""
            while len(got) < len(data):
                more = s.recv(len(data) - len(got))
                assert more, "an early end"
                got += more
            assert got == data
        print("talked", line.strip(), flush=True)
