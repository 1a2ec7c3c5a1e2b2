"""Making and keeping scalar indexes: tasks over fragments write segments, which one commit makes part of the table."""
