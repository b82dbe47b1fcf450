"""Text of plans, hosts and nodes on its way to a terminal, which it must not steer."""


def harmless(text: str) -> str:
    """The text with a replacement character for each sign that a terminal would obey."""
    return "".join(s if s.isprintable() or s == "\n" else "\N{REPLACEMENT CHARACTER}" for s in text)
