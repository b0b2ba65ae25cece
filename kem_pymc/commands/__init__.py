"""What the ``kem`` command does: one module per command, and what they share."""
