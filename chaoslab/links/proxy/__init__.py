"""The embedded proxy: what runs in its own process. Standard library only."""
