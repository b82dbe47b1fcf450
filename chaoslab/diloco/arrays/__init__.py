"""Work on large arrays: loops over blocks on several threads."""
