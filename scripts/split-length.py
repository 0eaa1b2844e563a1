#!/usr/bin/env python3
"""A server of one SOA record that writes the length of a response over TCP in a segment of its own, as NSD did before 3.2.14.

Usage: split-length.py ADDRESS PORT
"""

import socket
import struct
import sys
import threading

place = (sys.argv[1], int(sys.argv[2]))
SOA = struct.pack(">HHHIH", 0xC00C, 6, 1, 60, 22) + bytes(22)


def answer(query):
    end = query.index(0, 12) + 5
    return query[:2] + struct.pack(">HHHHH", 0x8400, 1, 1, 0, 0) + query[12:end] + SOA


def over_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(place)
        while True:
            query, client = server.recvfrom(4096)
            server.sendto(answer(query), client)


def over_tcp(stream):
    with stream, stream.makefile("rb") as queries:
        while length := queries.read(2):
            response = answer(queries.read(int.from_bytes(length, "big")))
            stream.sendall(struct.pack(">H", len(response)))
            stream.sendall(response)


threading.Thread(target=over_udp, daemon=True).start()
with socket.create_server(place, backlog=512) as listener:
    while True:
        threading.Thread(target=over_tcp, args=(listener.accept()[0],), daemon=True).start()
