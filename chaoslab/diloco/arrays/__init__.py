"""Work on large arrays: buffers that are used again, and loops over blocks on several threads."""
