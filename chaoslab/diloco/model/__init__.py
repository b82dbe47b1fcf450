"""What is trained: tasks, data, fragments of parameters and how they travel."""
