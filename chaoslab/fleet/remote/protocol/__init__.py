"""What a harness and its hosts have in common: messages, names, and a way from one to the other."""
