"""What the controller decides: who is alive, who votes, where new replicas go. Pure."""
