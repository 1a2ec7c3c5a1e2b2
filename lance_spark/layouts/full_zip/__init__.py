"""Full-zip pages: large values, each with its own levels and length."""
