"""What the installed pylance writes or accepts, beside what we do, found by trying: `make currency` compares it with docs/currency.md."""
