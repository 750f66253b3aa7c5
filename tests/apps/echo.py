# SPDX-License-Identifier: MIT
"""An asyncio echo server, and a client with many connections that compares every byte.

SIGUSR1: the server becomes another user, if it may.
"""
import asyncio
import hashlib
import os
import signal
import sys

CONNECTIONS, MESSAGES = 20, 40


def become():
    """Nobody; who is no superuser can only become what it is."""
    if os.getuid() == 0:
        os.setgroups([])
    user = os.getuid() or 65534
    os.setgid(os.getgid() or 65534)
    os.setuid(user)


async def serve(host, port):
    """Echoes until it's told to end."""

    async def echo(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, become)
    server = await asyncio.start_server(echo, host, port)
    await stop.wait()
    server.close()


async def talk_once(host, port, number):
    """True when everything came back."""
    reader, writer = await asyncio.open_connection(host, port)
    block = hashlib.sha256(str(number).encode()).digest()
    for i in range(MESSAGES):
        data = block * (i * i + 1)
        writer.write(data)
        if await reader.readexactly(len(data)) != data:
            return False
    writer.write_eof()
    ended = await reader.read() == b""
    writer.close()
    return ended


async def talk(host, port):
    done = await asyncio.gather(*(talk_once(host, port, n) for n in range(CONNECTIONS)))
    print(sum(done), "of", CONNECTIONS)


asyncio.run({"serve": serve, "talk": talk}[sys.argv[1]](sys.argv[2], int(sys.argv[3])))
