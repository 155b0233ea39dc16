"""200 connections and as many datagrams, by asyncio, to servers of its own."""

import asyncio
import sys

PORT = int(sys.argv[1])
CLIENTS = 200


async def echo(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()


async def ask(number):
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(b"%d\n" % number)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(answer)


async def is_refused(port):
    try:
        await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        return type(error).__name__


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.transport.sendto(data, address)


class Answers(asyncio.DatagramProtocol):
    def __init__(self):
        self.received = asyncio.Queue()

    def datagram_received(self, data, address):
        self.received.put_nowait(int(data))


async def datagrams(**place):
    """To a peer that the endpoint is connected to, or to an address with each."""
    loop = asyncio.get_running_loop()
    transport, answers = await loop.create_datagram_endpoint(Answers, **place)
    to = None if "remote_addr" in place else ("127.0.0.1", PORT)
    total = 0
    for number in range(CLIENTS):
        transport.sendto(b"%d" % number, to)
        total += await answers.received.get()
    transport.close()
    return total


async def main():
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(echo, "127.0.0.1", PORT, backlog=CLIENTS)
    answers = await asyncio.gather(*(ask(number) for number in range(CLIENTS)))
    print("connections", sum(answers), await is_refused(PORT + 1), await is_refused(PORT + 2))
    server.close()
    await server.wait_closed()
    place = ("127.0.0.1", PORT)
    transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=place)
    print("datagrams", await datagrams(remote_addr=place), await datagrams(local_addr=("127.0.0.1", 0)))
    transport.close()


asyncio.run(main())
