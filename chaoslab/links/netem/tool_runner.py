"""Runner of iptables, tc and conntrack in its own network, commanded by its standard input.

    {"command": ["iptables", …], "text": ""} ─► one process ─► {"code": 0, "said": "…"}
    {"send_syn": [["10.0.0.3", 4701, "10.0.0.4", 40112]]} ─► a SYN from each first end to its second

One line in, one line out. It is the one program of the tools image, beside a proxy or as a gateway,
and ends with its input. It knows no links and keeps no book; `fleet.docker.images.tools` asks it.
"""

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence

_ASK_S = 10.0
_SYN = 0x02
_HEADER = struct.Struct("!HHIIBBHHH")
"""Header of a TCP segment without options."""


def main() -> None:
    """Answer line by line until there are no more."""
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "send_syn" in asked:
                answer = _send_syn(asked["send_syn"])
            else:
                answer = _run(asked["command"], asked.get("text", ""))
        except (OSError, subprocess.TimeoutExpired) as error:
            answer = 1, str(error)
        sys.stdout.write(json.dumps({"code": answer[0], "said": answer[1]}) + "\n")
        sys.stdout.flush()


def _run(command: Sequence[str], text: str) -> tuple[int, str]:
    """Exit code and output, or error output if it failed."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=_ASK_S, check=False
    )
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr.strip()


def _send_syn(ends: Sequence[tuple[str, int, str, int]]) -> tuple[int, str]:
    """A SYN into what is open, which its owner answers with where it stands (RFC 5961, 4.2).

    Whatever lies between then has something to refuse, so that an idle end hears of its end.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        for host, port, to_host, to_port in ends:
            raw.sendto(_segment(host, port, to_host, to_port), (to_host, 0))
    return 0, ""


def _segment(host: str, port: int, to_host: str, to_port: int) -> bytes:
    """A bare SYN; the kernel puts the IP header before it."""
    fields = (port, to_port, 1, 0, 5 << 4, _SYN, 1024)
    bare = _HEADER.pack(*fields, 0, 0)
    pseudo = struct.pack("!4s4sHH", socket.inet_aton(host), socket.inet_aton(to_host), 6, len(bare))
    return _HEADER.pack(*fields, _checksum(pseudo + bare), 0)


def _checksum(data: bytes) -> int:
    """The internet's (RFC 1071); `data` has an even length."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


if __name__ == "__main__":
    main()
