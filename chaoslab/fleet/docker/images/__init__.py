"""Images that containers run, and containers of them that try what an engine can do.

images ─► tools (iptables and tc in a container) ─► kernel_probe
image_check: whether an image of the user's own can run a node
"""
