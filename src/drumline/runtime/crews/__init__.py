"""Long-lived roles: executors, actors and their handover of steps."""
