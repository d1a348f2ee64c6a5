"""The tables of one sink whose path is a template, such as `lake/{topic}`."""
