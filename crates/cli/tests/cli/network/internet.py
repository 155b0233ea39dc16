"""A name server on the loopback, and servers at a public, a private and a loopback address. They end with the
process that started them; the argument is a FIFO that is told when all of them listen, and names that were asked for are
written beside it."""

import ctypes, signal, socket, sys, threading
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
signal.alarm(120)
NAMES = {'public.test': '203.0.113.7', 'private.test': '10.9.9.9', 'rebound.test': '127.0.0.1'}
# Its answers hold for a second, and it moves after the first.
MOVING = iter(['203.0.113.7'])
def echo(server):
    while True:
        connection, _ = server.accept()
        connection.sendall(b'tcp')
        connection.close()
def echo_datagrams(server):
    while True:
        _, client = server.recvfrom(100)
        server.sendto(b'udp', client)
def answer(server):
    while True:
        question, client = server.recvfrom(512)
        labels, at = [], 12
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode().lower())
            at += 1 + question[at]
        kind, asked = question[at + 2], question[12:at + 5]
        name = '.'.join(labels)
        with open(sys.argv[1] + '.asked', 'a') as asked_for: print(name, file=asked_for)
        moves = name == 'moving.test' and kind == 1
        address = next(MOVING, '203.0.113.9') if moves else NAMES.get(name)
        known = address and kind == 1
        head = question[:2] + (b'\x81\x80' if address else b'\x81\x83') + b'\0\1\0' + bytes([1 if known else 0]) + b'\0\0\0\0'
        record = b'\xc0\x0c\0\1\0\1\0\0\0' + (b'\x01' if moves else b'\x3c') + b'\0\4' + socket.inet_aton(address) if known else b''
        server.sendto(head + asked + record, client)
for host in '203.0.113.7', '203.0.113.9', '10.9.9.9', '127.0.0.1':
    threading.Thread(target=echo, args=[socket.create_server((host, 8000))]).start()
datagrams = socket.socket(type=socket.SOCK_DGRAM)
datagrams.bind(('203.0.113.7', 8000))
threading.Thread(target=echo_datagrams, args=[datagrams]).start()
names = socket.socket(type=socket.SOCK_DGRAM)
names.bind(('127.0.0.53', 53))
threading.Thread(target=answer, args=[names]).start()
open(sys.argv[1], 'w').write('ready\n')
