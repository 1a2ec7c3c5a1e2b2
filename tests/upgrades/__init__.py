"""What earlier releases made, and what this one does with it."""
