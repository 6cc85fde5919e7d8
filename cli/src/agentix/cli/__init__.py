"""The commands `agentix` and `agentix-run`.

Every module imports at its top what starting it costs little of; what a command needs is imported when it runs.
"""
