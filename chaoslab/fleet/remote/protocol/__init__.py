"""Protocol of a harness and its hosts: messages, names, and a way from one to the other."""
