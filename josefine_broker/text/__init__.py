"""The text protocol: topics, messages and subscriptions for people with `nc` and tiny devices.

One line in, one line out. No code here does I/O: bytes go into a `session.Session`, a wait is a
parked request, and replies come out. The front end is thin: it calls the handlers of Kafka's
clients (`josefine_broker.api`), here or on the leader.
"""
