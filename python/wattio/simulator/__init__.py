"""From what a user names to what the simulator takes, and back."""
