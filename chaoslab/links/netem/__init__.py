"""Effects by a Linux kernel: packet rules beside a proxy, and links that a gateway forwards."""
