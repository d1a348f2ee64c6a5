"""A client that asks the least there is, every two milliseconds, and tells how long it had to wait.

    python -m tests.bench.other_client BOOTSTRAP

A process of its own, for the interpreter of whoever measures is busy too. A line on stdin ends a
measurement, and a line with the longest pause in seconds answers it; end of input ends the process.
"""

import select
import sys
import time

from tests.integration.raw import api_versions_request, connect, read_response

EVERY_SECONDS = 0.002


def main(bootstrap: str) -> None:
    connection = connect(bootstrap, timeout_s=60)
    longest, number = 0.0, 0
    print("ready", flush=True)
    while True:
        number += 1
        began = time.perf_counter()
        connection.sendall(api_versions_request(number))
        read_response(connection)
        longest = max(longest, time.perf_counter() - began)
        if select.select([sys.stdin], [], [], EVERY_SECONDS)[0]:
            if not sys.stdin.readline():
                return
            print(longest, flush=True)
            longest = 0.0


if __name__ == "__main__":
    main(sys.argv[1])
