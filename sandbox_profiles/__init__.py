"""Sandbox profiles as data: one TOML file each, read by `progevo.sandbox.profile`."""
