"""Links by a Toxiproxy server: the links, their client, the server's binary, settings of a plan."""
