"""Stands in for what `ac-advisor dryrun` loads, on a real device, so that tests/oracle's scripts run there unchanged."""
