"""Host agent: carries out a fleet's verbs on one host, and cleans up when its lease ends."""
