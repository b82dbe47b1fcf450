"""Nodes as containers of a Docker engine, on this machine or another; `fleet` is the entrance.

fleet ──► container (one incarnation) ──► engine ── Docker SDK ──► the engine
  ├─► run_resources: names, labels, network and volumes of one run
  ├─► engine_events: what the engine itself reports
  └─► proxy, gateway: a link's server, in a container too
cleanup: what a dead harness left there           images: what the containers run
"""
