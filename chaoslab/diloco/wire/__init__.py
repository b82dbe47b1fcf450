"""Transport between learners and the syncer; the only package that imports grpc."""
