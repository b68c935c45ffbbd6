"""What Kubernetes is given, and what makes parts of it from what stands elsewhere."""
