"""A Docker engine through the Docker SDK: how it is reached, asked, and what it keeps.

engine ─► objects ─► connection ─► tunnel (an engine that only ssh reaches)
  └─► container_facts, stream, usage: containers in plain data, their streams, what they use
labels: names by which what a run made is found again; needs no SDK
"""
