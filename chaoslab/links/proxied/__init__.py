"""Links through a proxy server: its process, its API, its effects; with chaoslab's own proxy."""
