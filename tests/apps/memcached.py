# SPDX-License-Identifier: MIT
"""Sets and gets in memcached's text protocol, over several connections in several threads."""
import hashlib
import socket
import sys
import threading

HOST, PORT = sys.argv[1], int(sys.argv[2])
SIZES = [1, 10, 100, 1000, 10000, 100000, 500000]
answers = {}


def value(name, size):
    """Bytes that belong to this key alone."""
    block = hashlib.sha256(name.encode()).digest()
    return (block * (size // len(block) + 1))[:size]


def talk(number):
    with socket.create_connection((HOST, PORT)) as s, s.makefile("rb") as f:
        good = 0
        for rounds in range(20):
            for size in SIZES[: 5 if rounds else None]:
                key = f"key{number}-{size}"
                data = value(key, size)
                s.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), size, data))
                assert f.readline() == b"STORED\r\n"
                s.sendall(b"get %s\r\n" % key.encode())
                assert f.readline().startswith(b"VALUE " + key.encode())
                good += f.read(size + 2) == data + b"\r\n"
                assert f.readline() == b"END\r\n"
        answers[number] = good


threads = [threading.Thread(target=talk, args=(i,)) for i in range(12)]
for t in threads:
    t.start()
for t in threads:
    t.join()
for number in sorted(answers):
    print(number, answers[number])
