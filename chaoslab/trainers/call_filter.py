"""Call filter: a program that lets the kernel stop it, and its descendants, before some calls.

    python -I -S call_filter.py ARCHITECTURE CALL,CALL,… PROGRAM …  ─► seccomp filter ─► exec

A CALL is a system call's number, or NUMBER:ARGUMENT:MASK, which are those calls alone whose
argument has a bit of the mask. All others, and those of programs of another architecture, run at
full speed. Imports nothing of chaoslab. Without a tracer the filtered calls fail.
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _TRACE = 0x7FFF0000, 0x7FF00000
NOT_POSSIBLE, NO_PROGRAM = 126, 127


def main(arguments: list[str]) -> int:
    """Execute the program in `arguments`; returns only if that fails."""
    architecture, calls, *program = arguments
    rules = instructions(int(architecture), calls.split(","))
    buffer = ctypes.create_string_buffer(rules)
    filter_ = struct.pack("HP", len(rules) // 8, ctypes.addressof(buffer))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(filter_), 0, 0
    ):
        sys.stderr.write(f"seccomp filters cannot be used: {os.strerror(ctypes.get_errno())}\n")
        return NOT_POSSIBLE
    try:
        os.execvp(program[0], program)  # noqa: S606 - the purpose of this program
    except OSError as error:
        sys.stderr.write(f"{program[0]}: cannot be started: {error}\n")
    return NO_PROGRAM


def instructions(architecture: int, calls: list[str]) -> bytes:
    """The filter in classic BPF: a jump skips that many instructions, if true and if false."""
    code = [
        (_LOAD, 0, 0, 4),  # the architecture
        (_JUMP_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, 0),  # the number
    ]
    for call in calls:
        number, *masked = map(int, call.split(":"))
        tests = []
        if masked:
            argument, mask = masked
            low_word = 16 + 8 * argument
            tests = [(_LOAD, 0, 0, low_word), (_JUMP_IF_SET, 1, 0, mask), (_RETURN, 0, 0, _ALLOW)]
        code += [(_JUMP_IF_EQUAL, 0, len(tests) + 1, number), *tests, (_RETURN, 0, 0, _TRACE)]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *one) for one in code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
