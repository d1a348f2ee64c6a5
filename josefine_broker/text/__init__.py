"""The text protocol: topics, messages and subscriptions for people with `nc` and tiny devices.

One line in, one line out. Nothing here does I/O: bytes go into a `session.Session`, what has to
wait is a parked request, and replies come out. The front end is thin: what it does it asks of the
handlers that Kafka's clients ask (`josefine_broker.api`), here or on the broker that leads.
"""
