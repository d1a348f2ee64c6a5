"""An account whose events are a journal: python account.py."""

from josefine_journal.blocking import BlockingJournals
from josefine_journal.errors import ConcurrentWriter
from josefine_journal.events import Event, Json, SeqNr

with BlockingJournals("127.0.0.1:9092", "accounts") as journals:
    alice = journals.journal("alice")
    alice.append([Event(seq_nr=SeqNr(1), payload=Json({"deposit": 100}))], expected_seq_nr=0)
    alice.append([Event(seq_nr=SeqNr(2), payload=Json({"withdraw": 30}))], expected_seq_nr=1)
    try:  # another writer, which knows nothing of the second event
        alice.append([Event(seq_nr=SeqNr(2), payload=Json({"withdraw": 90}))], expected_seq_nr=1)
    except ConcurrentWriter as error:
        print("refused:", error)
    balance = 0
    for record in alice.read():
        change = record.event.payload.value
        balance += change.get("deposit", 0) - change.get("withdraw", 0)
    print("balance", balance)
