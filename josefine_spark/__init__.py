"""The PySpark connector: `spark.read`/`readStream`/`write`/`writeStream` with `format("josefine")`.

Arrow from the socket to Spark, no row objects. Imports the broker's client column only, and
nothing heavy here: PySpark imports this package in every planner process.
"""

from josefine_spark.sessions.available_now import run_available_now
from josefine_spark.sessions.registration import register
from josefine_spark.sessions.session import SessionError, session

__all__ = ["SessionError", "register", "run_available_now", "session"]
