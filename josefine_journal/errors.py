"""What the journal can say went wrong."""


class JournalError(Exception):
    """Bytes of a journal record that are not what the encoding says; the message names the place in
    them. Who reads a record adds its topic, partition and offset."""
