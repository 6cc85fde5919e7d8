"""The transport `github`: publishes to a git repository."""
