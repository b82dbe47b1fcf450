"""The trained model: tasks, data, fragments of parameters and their compression."""
