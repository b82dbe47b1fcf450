"""The way to a host by ssh; the only package that imports asyncssh."""
