"""Text of plans, hosts and nodes on its way to a terminal, which it must not steer."""


def harmless(text: str) -> str:
    """The text with a replacement character for each sign that a terminal would obey."""
    return "".join(s if s.isprintable() or s == "\n" else "\N{REPLACEMENT CHARACTER}" for s in text)


def one_line(text: str) -> str:
    """The same as one line, for logs: programs that read one obey the beginnings of its lines."""
    return harmless(" ".join(text.split()))
