"""Code and libraries on a host: delivered once by the hash of their content, and kept."""
