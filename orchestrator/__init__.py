"""The orchestrator: runs the acceptance loop of every session between clients, drafts and targets. No torch."""
