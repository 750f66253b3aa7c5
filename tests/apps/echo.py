# SPDX-License-Identifier: MIT
"""An asyncio echo server, and a client with many connections that compares every byte."""
import asyncio
import hashlib
import signal
import sys

CONNECTIONS, MESSAGES = 20, 40


async def serve(host, port):
    """Echoes until it's told to end."""

    async def echo(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
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
