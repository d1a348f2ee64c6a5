"""The repair of damaged logs from other replicas: what `engine/partition/repair` decides, done."""
