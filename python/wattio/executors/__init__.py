"""What runs the iterations of a plan: threads of this process, or a cluster."""
