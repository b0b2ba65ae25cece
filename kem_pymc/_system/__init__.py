"""What surrounds the statistics: processes, files, machines, and how objects are displayed."""
